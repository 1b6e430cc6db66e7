# Completion of lockmesh for fish: lockmesh completion fish > ~/.config/fish/completions/lockmesh.fish
function __lockmesh
    set -l words (commandline -opc) (commandline -ct)
    lockmesh internal-complete -- $words[2..-1] 2>/dev/null
end
function __lockmesh_is_command
    contains -- -- (commandline -opc)
end
complete -c lockmesh -n 'not __lockmesh_is_command' -f -a '(__lockmesh)'
complete -c lockmesh -n __lockmesh_is_command -x -a '(__fish_complete_subcommand --fcs-skip=3)'
