# Outrider in bash: eval "$(outrider shell bash)", best as the last line of ~/.bashrc.
# One key turns the words in the line into a command, another explains the command in the line. Nothing is run.

if [[ $- == *i* ]] && ((BASH_VERSINFO[0] < 4)); then
  echo 'outrider: the keys need bash 4 or newer; this is bash' "$BASH_VERSION" >&2
elif [[ $- == *i* ]]; then
  __outrider_python=@PYTHON@
  __outrider_client=@CLIENT@
  __outrider_root=@ROOT@
  __outrider_folder=@FOLDER@
  __outrider_file=$__outrider_folder/line.$$ # What is to stand in the next line; the chat and `outrider fix` write it.
  __outrider_waiting= __outrider_last= __outrider_code=0 __outrider_number= __outrider_seen= __outrider_entry=
  # The terminal answers this with \e[0n, which is bound below: so the line is filled as soon as bash reads it.
  __outrider_mark='\[\e[5n\]'

  __outrider_program() {
    "$__outrider_python" -P -c 'import sys; sys.path.insert(0, sys.argv.pop(1)); from app.start import main; main()' \
      "$__outrider_root" "$@"
  }

  outrider() {
    case ${1-chat} in
      chat | fix)
        local last=$__outrider_last code=$__outrider_code
        if [[ ${1-} == fix && ! -t 0 ]]; then # The output of a command is piped in: it is in this same line.
          __outrider_read_history
          last=$__outrider_entry code=
        fi
        command mkdir -p -m 700 -- "$__outrider_folder"
        if [[ -O $__outrider_folder ]]; then
          OUTRIDER_COMMAND_FILE=$__outrider_file OUTRIDER_LAST_COMMAND=$last OUTRIDER_LAST_CODE=$code \
            __outrider_program "$@"
        else
          __outrider_program "$@"
        fi
        ;;
      *) __outrider_program "$@" ;;
    esac
  }

  # Sends a text to the helper. Sets __outrider_note and __outrider_text; 0 if there is an answer.
  __outrider_ask() {
    local traps reply code
    traps=$(trap -p INT)
    trap '' INT # Ctrl+C ends the request, not the line.
    reply=$(printf '%s' "$2" | "$__outrider_python" -I -S "$__outrider_client" "$1" bash --announce "${@:3}")
    code=$?
    eval "${traps:-trap - INT}"
    __outrider_note=${reply%%$'\n'*}
    __outrider_text=
    [[ $reply == *$'\n'* ]] && __outrider_text=${reply#*$'\n'}
    ((code > 1 && code != 130)) && __outrider_note="outrider: $__outrider_python does not run. Open a new shell."
    return "$code"
  }

  __outrider_command_key() {
    local answered=1
    if [[ $READLINE_LINE == *[![:space:]]* ]]; then
      __outrider_ask command "$READLINE_LINE" && answered=0
    elif [[ -n $__outrider_waiting ]]; then
      __outrider_text=$__outrider_waiting __outrider_note= __outrider_waiting= answered=0
    elif [[ -n $__outrider_last && $__outrider_code != 0 ]]; then
      __outrider_ask fix "$__outrider_last" --status "$__outrider_code" && answered=0
    else
      __outrider_ask command ''
    fi
    [[ -n $__outrider_note ]] && printf '%s\n' "$__outrider_note"
    if ((answered == 0)) && [[ -n $__outrider_text ]]; then
      READLINE_LINE=$__outrider_text READLINE_POINT=1000000
    fi
  }

  __outrider_explain_key() {
    __outrider_ask explain "$READLINE_LINE"
    [[ -n $__outrider_note ]] && printf '%s\n' "$__outrider_note"
    [[ -n $__outrider_text ]] && printf '%s\n' "$__outrider_text"
  }

  # What the terminal's answer does: fill the line, or nothing. Once filled, bash draws the prompt again, and the
  # question in it is asked again; a macro that is empty draws nothing, so that it ends there.
  __outrider_bind_fill() {
    local map
    for map in emacs-standard vi-insert vi-command; do
      if [[ -n $__outrider_waiting ]]; then
        bind -m "$map" -x '"\e[0n": __outrider_fill'
      else
        bind -m "$map" '"\e[0n": ""'
      fi
    done
  }

  __outrider_fill() {
    if [[ -n $__outrider_waiting && -z $READLINE_LINE ]]; then
      READLINE_LINE=$__outrider_waiting READLINE_POINT=1000000 __outrider_waiting=
    fi
    PS1=${PS1%"$__outrider_mark"}
    local waiting=$__outrider_waiting
    __outrider_waiting=
    __outrider_bind_fill
    __outrider_waiting=$waiting
  }

  # Sets __outrider_number and __outrider_entry from the last line of the history.
  __outrider_read_history() {
    local entry
    entry=$(HISTTIMEFORMAT='' builtin history 1)
    entry=${entry#"${entry%%[0-9]*}"}
    __outrider_number=${entry%%[!0-9]*}
    entry=${entry#"$__outrider_number"}
    entry=${entry#\*}
    __outrider_entry=${entry#"${entry%%[![:space:]]*}"}
  }

  __outrider_before() { # Runs first, because $? is the command's only there.
    local code=$? before=$__outrider_number
    __outrider_read_history
    if [[ $__outrider_number != "$before" && -n $__outrider_seen ]]; then
      if [[ $__outrider_entry != *'outrider fix'* ]]; then
        __outrider_last=$__outrider_entry __outrider_code=$code
      fi
    elif [[ $code != "$__outrider_code" && $__outrider_entry != *'outrider fix'* ]]; then
      __outrider_last= __outrider_code=$code # A command that the history does not have, so it is not known.
    fi
    __outrider_seen=1
    return "$code"
  }

  __outrider_prompt() { # Runs last, because others set PS1.
    local code=$?
    PS1=${PS1%"$__outrider_mark"}
    if [[ -f $__outrider_file && -O $__outrider_file ]]; then
      __outrider_waiting=$(<"$__outrider_file")
      command rm -f -- "$__outrider_file"
    fi
    if [[ -n $__outrider_waiting ]]; then
      __outrider_bind_fill
      PS1+=$__outrider_mark
    fi
    return "$code"
  }

  if [[ ${PROMPT_COMMAND[*]-} != *__outrider_before* ]]; then
    if [[ $(declare -p PROMPT_COMMAND 2>/dev/null) == 'declare -a'* ]]; then
      PROMPT_COMMAND=(__outrider_before "${PROMPT_COMMAND[@]}" __outrider_prompt)
    else
      PROMPT_COMMAND=$'__outrider_before\n'${PROMPT_COMMAND-}$'\n__outrider_prompt'
    fi
  fi

  for __outrider_map in emacs-standard vi-insert vi-command; do
    bind -m "$__outrider_map" -x '"'@COMMAND_KEY@'": __outrider_command_key'
    bind -m "$__outrider_map" -x '"'@EXPLAIN_KEY@'": __outrider_explain_key'
  done
  unset __outrider_map
  __outrider_bind_fill
fi
