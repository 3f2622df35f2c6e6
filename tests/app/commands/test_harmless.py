"""Commands that do no harm: the rules are silent about every one. A warning that comes too often is not read."""

from __future__ import annotations

import pytest

from app.commands.risks import risks

HARMLESS = r"""
ls
ls -la
ls -lhS /var/log
ls -d */
ls | wc -l
ls > /dev/null
ls 2>/dev/null
ls > /dev/null 2>&1
ls 2>&1 | less
ls >&2
pwd
cd ..
cd -
cat notes.txt
cat a.txt b.txt | sort | uniq -c | sort -rn | head
cat /etc/passwd
cat <<< "hello"
head -n 5 f.txt
tail -f app.log
tail -n +2 f.csv
less +F app.log
wc -l *.txt
grep -rn "rm -rf" .
grep -c 'sudo' history.txt
grep -v '^#' /etc/ssh/sshd_config
echo "rm -rf /"
echo 'sudo reboot'
echo "shutdown now > /dev/sda"
printf '%s\n' *.txt
echo rm -rf build
man rm
rm --help
rm --version
which sudo
type kill
help kill
apropos delete
tldr rm
find . -name '*.py'
find . -type f -size +100M
find . -name '*.log' -mtime +7
find . -type f -exec grep -l TODO {} +
find . -name '*.jpg' -print0 | xargs -0 ls -l
find / -name passwd 2>/dev/null
fd -e py
locate notes.txt
du -sh *
du -h --max-depth=1 | sort -h
df -h
free -h
uptime
uname -a
whoami
id
groups
who
w
last
date
date -d tomorrow +%F
cal
ps aux
ps aux | grep node | grep -v grep
top -b -n 1
htop
pgrep -fl node
pidof firefox
jobs
fg %1
bg
kill -l
kill -0 1234
kill -s CONT 1234
killall -l
lsof -i :8080
ss -tulpn
netstat -tlnp
ip addr
ip route
ping -c 4 192.0.2.1
traceroute example.org
dig example.org MX
nslookup example.org
host example.org
curl https://example.org
curl -I https://example.org
curl -s https://example.org | jq .
curl -O https://example.org/a.tgz
curl -X POST -d 'a=1' https://example.org
curl -fsSL https://example.org/a.tgz | tar xz
curl -s https://example.org/data.json | python3 -m json.tool
curl -s https://example.org/data.csv | awk -F, '{print $2}'
curl -s https://example.org/data.txt | python3 count.py
curl -H "Authorization: Bearer $TOKEN" https://example.org
curl -u bob https://example.org
wget https://example.org/a.tgz
wget -c https://example.org/a.tgz
ssh bob@host
ssh -p 2222 -i ~/.ssh/id_ed25519 bob@host
ssh bob@host 'df -h'
ssh-keygen -t ed25519
ssh-add ~/.ssh/id_ed25519
scp f.txt bob@host:/tmp/
scp -i ~/.ssh/id_rsa f.txt bob@host:
scp bob@host:/tmp/f.txt .
rsync -av src/ dst/
rsync -avn --delete src/ dst/
rsync -a --exclude .git . host:backup/
sftp bob@host
tar czf a.tgz folder
tar xzf a.tgz
tar xzf a.tgz -C /tmp/x
tar tf a.tar
zip -r a.zip folder
unzip a.zip
unzip -l a.zip
gzip -k f.txt
gunzip f.gz
7z x a.7z
mkdir new
mkdir -p a/b/c
touch new.txt
cp f.txt folder/
cp -r a/ b/
cp a.txt b.txt c.txt folder
cp -n a.txt b.txt
cp -i a.txt b.txt
cp f.txt .
mv f.txt folder/
mv a.txt b.txt folder
mv -n a.txt b.txt
mv *.jpg ~/Pictures/
ln -s target name
stat f.txt
file f.bin
basename /a/b/c.txt
realpath f.txt
readlink -f name
diff a.txt b.txt
diff -r a b
cmp a b
comm -12 a b
sort f.txt
sort -k2,2n -t, f.csv
uniq -d f.txt
cut -d: -f1 /etc/passwd
tr a-z A-Z < f.txt
sed 's/a/b/g' f.txt
sed -n '5,10p' f.txt
sed -e '1d' f.txt
sed -E 's/(a)(b)/\2\1/' f.txt
awk '{print $1}' f.txt
awk -F, 'NR > 1 {s += $3} END {print s}' f.csv
awk '$3 > 10' f.txt
awk '{ print $1 > "/dev/stderr" }' f.txt
perl -ne 'print if /x/' f.txt
perl -pe 's/a/b/' f.txt
python3 -c 'print(2 + 2)'
python3 script.py
python3 -m venv .venv
python3 -m http.server 8000
pip install requests
pip list
npm install
npm run clean
cargo build --release
make
make install
./configure --prefix=/usr/local
gcc -o app main.c
jq '.items[] | .name' f.json
jq 'del(.secret)' f.json
xargs -n 1 echo < list.txt
seq 1 10
shuf -n 1 f.txt
split -l 1000 f.txt part_
tee -a log.txt
echo hello | tee -a log.txt
echo hello >> log.txt
make >> build.log 2>&1
exec 3<> pipe
column -t f.txt
paste a.txt b.txt
nl f.txt
rev f.txt
base64 f.bin
echo aGk= | base64 -d
md5sum f.txt
sha256sum f.iso
xxd f.bin | head
od -c f.bin
strings app | grep version
history
history | grep ssh
history 20
alias ll='ls -l'
export PATH="$HOME/bin:$PATH"
env
env | sort
printenv HOME
set -euo pipefail
source ~/.bashrc
. venv/bin/activate
umask 022
umask
ulimit -n
sleep 5
watch -n 1 date
time make
nohup ./run.sh &
timeout 10 ping host
yes | head -3
for f in *.txt; do wc -l "$f"; done
for i in {1..5}; do echo "$i"; done
while read -r line; do echo "$line"; done < f.txt
if [ -f f.txt ]; then echo yes; fi
[[ $a == b ]] && echo same
case $1 in start) echo on;; stop) echo off;; esac
f() { echo hi; }; f
x=$((1 + 2)); echo $x
arr=(a b c); echo "${arr[@]}"
git status
git log --oneline -5
git diff
git diff --staged
git add -A
git add f.txt && git commit -m "Delete the force of rm -rf"
git commit -am "amend"
git push
git push -u origin main
git push origin v1.0
git push --force --dry-run
git pull
git pull --rebase
git fetch --prune
git clone https://example.org/x.git
git branch
git branch -a
git branch new
git branch -m old new
git checkout main
git checkout -b new
git switch -c new
git restore --staged f.txt
git reset f.txt
git reset HEAD f.txt
git stash
git stash pop
git stash list
git stash apply stash@{1}
git merge feature
git rebase --abort
git rebase --continue
git cherry-pick abc123
git revert HEAD
git rm --cached f.txt
git clean -n
git clean -ndx
git tag v1.0
git tag -l
git remote -v
git remote remove old
git show HEAD~1
git blame f.txt
git bisect start
git config --global user.name "A B"
git reflog
git worktree list
git gc
gh pr list
gh repo clone a/b
docker ps -a
docker images
docker run --rm -it alpine sh
docker run -d -p 80:80 --name web nginx
docker run -v "$PWD":/src -w /src node npm test
docker build -t app .
docker logs -f web
docker exec -it web bash
docker compose up -d
docker compose logs
docker inspect web
docker start web
docker cp web:/a.txt .
docker system df
kubectl get pods
kubectl apply -f app.yaml
kubectl logs -f web
kubectl delete pod web --dry-run=client
kubectl exec -it web -- sh
helm list
terraform plan
terraform apply
aws s3 ls
aws s3 cp f.txt s3://bucket/
systemctl status nginx
systemctl list-units --type=service
systemctl start nginx
systemctl enable nginx
systemctl is-active nginx
journalctl -u nginx -f
journalctl --since today
dmesg | tail
service nginx status
crontab -l
crontab -e
apt list --installed
apt search htop
apt show htop
apt install htop
apt-get install --dry-run htop
dnf install htop
pacman -S htop
pacman -Q
brew install wget
brew list
brew upgrade
snap list
fdisk -l
lsblk
blkid
parted /dev/sda print
mount
mount /dev/sdb1 /mnt
umount /mnt
dd if=/dev/sda of=/dev/null bs=1M
dd if=/dev/urandom bs=1 count=16 | xxd
sudo -l
sudo -v
sudo --version
su --help
chmod --help
chmod --reference=a b
getfacl f.txt
lsattr f.txt
getent passwd bob
passwd -S bob
visudo -c
ufw status
iptables -L -n
nft list ruleset
openssl rand -hex 16
openssl x509 -in cert.pem -noout -text
gpg --verify a.sig a
mysql -u root -p app
mysql -e 'SELECT * FROM users'
psql -c 'select count(*) from deleted_items'
psql -U bob -d app
sqlite3 app.db '.tables'
sqlite3 app.db 'select * from t where name = "drop"'
redis-cli get key
redis-cli -a "$REDIS_PASSWORD" ping
PGPASSWORD="$PW" psql app
tmux new -s work
tmux attach
tmux ls
screen -r
ffmpeg -i a.mp4 b.mp3
convert a.png -resize 50% b.png
pandoc a.md -t html
shutdown -c
shutdown --help
xrandr --output HDMI-1 --auto
nmcli device wifi list
nmcli connection show
tldr --update
<command> --help
{{command}} --version
cat <file>
grep {{pattern}} {{path/to/file}}
open .
xdg-open f.pdf
pbcopy < f.txt
defaults read com.apple.finder
sw_vers
mdfind notes
caffeinate -t 3600
wget -qO- https://example.org | grep title
echo 'SELECT 1' | psql app
echo "print('x')" | python3
ls | sh list.sh
read -rp "Delete? " answer
trap - EXIT
test -d build || mkdir build
"""


@pytest.mark.parametrize("command", HARMLESS.strip().splitlines())
def test_nothing_is_said_of_a_harmless_command(command: str) -> None:
    assert risks(command) == ()
