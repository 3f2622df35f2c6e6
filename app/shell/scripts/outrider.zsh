# Outrider in zsh: eval "$(outrider shell zsh)" in ~/.zshrc.
# One key turns the words in the line into a command, another explains the command in the line. Nothing is run.

if [[ -o interactive ]]; then
  typeset -g _outrider_python=@PYTHON@ _outrider_client=@CLIENT@ _outrider_root=@ROOT@
  typeset -g _outrider_folder=@FOLDER@ _outrider_socket=@SOCKET@
  # What is to stand in the next line; the chat and `outrider fix` write it.
  typeset -g _outrider_file=$_outrider_folder/line.$$
  typeset -g _outrider_last= _outrider_code=0 _outrider_current= _outrider_note= _outrider_text=

  _outrider_program() {
    "$_outrider_python" -P -c 'import sys; sys.path.insert(0, sys.argv.pop(1)); from app.start import main; main()' \
      "$_outrider_root" "$@"
  }

  outrider() {
    emulate -L zsh
    case ${1-chat} in
      (chat|fix)
        local last=$_outrider_last code=$_outrider_code
        if [[ $1 == fix && ! -t 0 ]]; then # The output of a command is piped in: it is in this same line.
          last=$_outrider_current code=
        fi
        command mkdir -p -m 700 -- $_outrider_folder
        if [[ -O $_outrider_folder ]]; then
          OUTRIDER_COMMAND_FILE=$_outrider_file OUTRIDER_LAST_COMMAND=$last OUTRIDER_LAST_CODE=$code \
            _outrider_program "$@"
        else
          _outrider_program "$@"
        fi
        ;;
      (*) _outrider_program "$@" ;;
    esac
  }

  # Sends a text to the helper. Sets _outrider_note and _outrider_text; 0 if there is an answer.
  _outrider_ask() {
    emulate -L zsh
    setopt localtraps
    trap '' INT # Ctrl+C ends the request, not the line.
    local reply code
    zle -R 'outrider: asking. Ctrl+C stops it.'
    reply=$(print -rn -- "$2" | "$_outrider_python" -I -S "$_outrider_client" "$1" zsh "${@:3}" 2>/dev/null)
    code=$?
    _outrider_note=${reply%%$'\n'*} _outrider_text=
    [[ $reply == *$'\n'* ]] && _outrider_text=${reply#*$'\n'}
    (( code > 1 && code != 130 )) && _outrider_note="outrider: $_outrider_python does not run. Open a new shell."
    return $code
  }

  _outrider_command_key() {
    emulate -L zsh
    local answered=1
    if [[ $BUFFER == *[^[:space:]]* ]]; then
      _outrider_ask command "$BUFFER" && answered=0
    elif [[ -n $_outrider_last && $_outrider_code != 0 ]]; then
      _outrider_ask fix "$_outrider_last" --status $_outrider_code && answered=0
    else
      _outrider_ask command ''
    fi
    if (( answered == 0 )) && [[ -n $_outrider_text ]]; then
      BUFFER=$_outrider_text
      CURSOR=$#BUFFER
    fi
    zle -M -- "$_outrider_note"
  }

  _outrider_explain_key() {
    emulate -L zsh
    if _outrider_ask explain "$BUFFER" && [[ -n $_outrider_text ]]; then
      zle -I
      print -rl -- "$_outrider_text" $_outrider_note
    else # After `zle -I`, a message would hide the prompt and the last line of the text.
      zle -M -- "$_outrider_note"
    fi
  }

  _outrider_preexec() {
    _outrider_current=$1
  }

  _outrider_precmd() {
    local code=$?
    if [[ -n $_outrider_current && $_outrider_current != *'outrider fix'* ]]; then
      _outrider_last=$_outrider_current _outrider_code=$code
    fi
    _outrider_current=
    if [[ -f $_outrider_file && -O $_outrider_file ]]; then
      print -rz -- "$(<$_outrider_file)"
      command rm -f -- $_outrider_file
    fi
  }

  autoload -Uz add-zsh-hook add-zle-hook-widget
  add-zsh-hook preexec _outrider_preexec
  add-zsh-hook precmd _outrider_precmd
  zle -N _outrider_command_key
  zle -N _outrider_explain_key
  for _outrider_map in emacs viins vicmd; do
    bindkey -M $_outrider_map @COMMAND_KEY@ _outrider_command_key
    bindkey -M $_outrider_map @EXPLAIN_KEY@ _outrider_explain_key
  done
  unset _outrider_map

  # Ghost text: the closest command for the words so far, dimmed behind them. The shell speaks to the helper itself.
  if [[ -n @GHOST@ ]] && zmodload zsh/net/socket 2>/dev/null; then
    typeset -g _outrider_ghost_of= _outrider_ghost= _outrider_ghost_look= _outrider_ghost_fd= _outrider_ghost_started=

    _outrider_ghost_clear() {
      if [[ -n $_outrider_ghost && $POSTDISPLAY == $_outrider_ghost ]]; then
        POSTDISPLAY=
        region_highlight=("${(@)region_highlight:#$_outrider_ghost_look}")
      fi
      _outrider_ghost=
      if [[ -n $_outrider_ghost_fd ]]; then
        zle -F $_outrider_ghost_fd
        exec {_outrider_ghost_fd}<&-
        _outrider_ghost_fd=
      fi
    }

    _outrider_ghost_redraw() {
      emulate -L zsh
      [[ $BUFFER == $_outrider_ghost_of ]] && return
      _outrider_ghost_clear
      _outrider_ghost_of=$BUFFER
      (( ${#${=BUFFER}} < 3 || $#BUFFER > 300 )) && return
      [[ $BUFFER == *[[:cntrl:]]* || -n $POSTDISPLAY ]] && return
      local REPLY words=${BUFFER//\\/\\\\} folder=${PWD//\\/\\\\}
      if ! zsocket $_outrider_socket 2>/dev/null; then
        if [[ -z $_outrider_ghost_started ]]; then # Once a line: it listens before the next words are typed.
          _outrider_ghost_started=1
          print -n | "$_outrider_python" -I -S "$_outrider_client" status zsh &>/dev/null &!
        fi
        return
      fi
      _outrider_ghost_fd=$REPLY
      print -r -u $_outrider_ghost_fd -- \
        "{\"kind\":\"ghost\",\"plain\":true,\"cwd\":\"${folder//\"/\\\"}\",\"text\":\"${words//\"/\\\"}\"}"
      zle -F -w $_outrider_ghost_fd _outrider_ghost_reply
    }

    _outrider_ghost_reply() {
      emulate -L zsh
      local fd=$1 text
      IFS= read -r -u $fd text
      zle -F $fd
      exec {fd}<&-
      _outrider_ghost_fd=
      if [[ -n $text && $BUFFER == $_outrider_ghost_of && -z $POSTDISPLAY ]]; then
        _outrider_ghost="  → $text"
        POSTDISPLAY=$_outrider_ghost
        _outrider_ghost_look="$#BUFFER $(( $#BUFFER + $#POSTDISPLAY )) fg=8"
        region_highlight+=("$_outrider_ghost_look")
      fi
      zle -R
    }

    _outrider_ghost_finish() {
      _outrider_ghost_clear
      _outrider_ghost_of= _outrider_ghost_started=
    }

    zle -N _outrider_ghost_reply
    add-zle-hook-widget line-pre-redraw _outrider_ghost_redraw
    add-zle-hook-widget line-finish _outrider_ghost_finish
  fi
fi
