# Completion of lockmesh for bash: source <(lockmesh completion bash)
_lockmesh() {
  local cur=${COMP_WORDS[COMP_CWORD]} i
  # Behind -- is a command with words of its own.
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      if declare -F _command_offset >/dev/null; then
        _command_offset "$((i + 1))"
      else
        mapfile -t COMPREPLY < <(compgen -A command -A file -- "$cur")
      fi
      return
    fi
  done
  mapfile -t COMPREPLY < <(lockmesh internal-complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _lockmesh lockmesh
