# Outrider in fish: outrider shell fish | source, in ~/.config/fish/config.fish.
# One key turns the words in the line into a command, another explains the command in the line. Nothing is run.

if status is-interactive
    set -g __outrider_python @PYTHON@
    set -g __outrider_client @CLIENT@
    set -g __outrider_root @ROOT@
    set -g __outrider_folder @FOLDER@
    # What is to stand in the next line; the chat and `outrider fix` write it.
    set -g __outrider_file $__outrider_folder/line.$fish_pid
    set -g __outrider_last ''
    set -g __outrider_code 0
    set -g __outrider_current ''

    function __outrider_program
        $__outrider_python -P -c 'import sys; sys.path.insert(0, sys.argv.pop(1)); from app.start import main; main()' \
            $__outrider_root $argv
    end

    function outrider
        set -l what $argv[1]
        test (count $argv) -eq 0; and set what chat
        if contains -- "$what" chat fix
            set -l last $__outrider_last
            set -l code $__outrider_code
            if test "$what" = fix; and not isatty stdin # The output of a command is piped in: it is in this same line.
                set last $__outrider_current
                set code ''
            end
            command mkdir -p -m 700 -- $__outrider_folder
            if test -O $__outrider_folder
                set -lx OUTRIDER_COMMAND_FILE $__outrider_file
                set -lx OUTRIDER_LAST_COMMAND $last
                set -lx OUTRIDER_LAST_CODE $code
                __outrider_program $argv
            else
                __outrider_program $argv
            end
        else
            __outrider_program $argv
        end
    end

    # Sends a text to the helper. Sets __outrider_reply: the note, then the lines of the text.
    function __outrider_ask --argument-names kind text
        set -g __outrider_reply (printf '%s' $text | $__outrider_python -I -S $__outrider_client $kind fish $argv[3..-1] 2>/dev/null)
        set -l code $status
        if test $code -gt 1 -a $code -ne 130
            set -g __outrider_reply "outrider: $__outrider_python does not run. Open a new shell."
        end
        return $code
    end

    function __outrider_say
        echo
        printf '%s\n' $argv
    end

    function __outrider_command_key
        set -l line (commandline | string collect)
        set -l answered 1
        if string match -qr '\S' -- "$line"
            __outrider_ask command "$line"
            and set answered 0
        else if test -n "$__outrider_last" -a "$__outrider_code" != 0
            __outrider_ask fix "$__outrider_last" --status $__outrider_code
            and set answered 0
        else
            __outrider_ask command ''
        end
        test -n "$__outrider_reply[1]"; and __outrider_say $__outrider_reply[1]
        if test $answered -eq 0 -a (count $__outrider_reply) -gt 1
            commandline -r -- (string join \n -- $__outrider_reply[2..-1] | string collect)
        end
        commandline -f repaint
    end

    function __outrider_explain_key
        __outrider_ask explain (commandline | string collect)
        test -n "$__outrider_reply[1]"; and __outrider_say $__outrider_reply[1]
        test (count $__outrider_reply) -gt 1; and __outrider_say $__outrider_reply[2..-1]
        commandline -f repaint
    end

    function __outrider_preexec --on-event fish_preexec
        set -g __outrider_current "$argv"
    end

    function __outrider_postexec --on-event fish_postexec
        set -l code $status
        if not string match -q '*outrider fix*' -- "$argv"
            set -g __outrider_last "$argv"
            set -g __outrider_code $code
        end
        if test -f $__outrider_file -a -O $__outrider_file
            commandline -r -- (command cat -- $__outrider_file | string collect)
            command rm -f -- $__outrider_file
        end
    end

    for mode in default insert
        bind -M $mode @COMMAND_KEY@ __outrider_command_key
        bind -M $mode @EXPLAIN_KEY@ __outrider_explain_key
    end
end
