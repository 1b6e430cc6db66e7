# Completion of lockmesh for fish: lockmesh completion fish > ~/.config/fish/completions/lockmesh.fish
function __lockmesh
    set -l words (commandline -opc) (commandline -ct)
    lockmesh internal-complete -- $words[2..-1] 2>/dev/null
end
# Behind -- of run and lead is a command with words of its own.
function __lockmesh_is_command
    set -l words (commandline -opc)
    set -l i (contains -i -- -- $words); or return
    contains run $words[1..$i]; or contains lead $words[1..$i]
end
function __lockmesh_command
    set -l words (commandline -opc)
    set -l i (contains -i -- -- $words)
    set -l rest $words[(math $i + 1)..-1]
    complete -C (string join ' ' -- (string escape -- $rest) (commandline -ct))
end
complete -c lockmesh -n 'not __lockmesh_is_command' -f -a '(__lockmesh)'
complete -c lockmesh -n __lockmesh_is_command -x -a '(__lockmesh_command)'
