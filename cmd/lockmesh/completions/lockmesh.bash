# Completion of lockmesh for bash: source <(lockmesh completion bash)
_lockmesh() {
  local line=${COMP_LINE:0:COMP_POINT} words=() found=() blanks part before candidate quoted i
  # Behind -- is a command with words of its own.
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      if declare -F _command_offset >/dev/null; then
        _command_offset "$((i + 1))"
      else
        compopt -o filenames 2>/dev/null || : # bash quotes the names
        mapfile -t COMPREPLY < <(compgen -A command -A file -- "${COMP_WORDS[COMP_CWORD]}")
      fi
      return
    fi
  done
  # Bash splits words at COMP_WORDBREAKS, a colon among them: parts without a blank between them are
  # one word.
  for ((i = 0; i <= COMP_CWORD; i++)); do
    blanks=${line%%[![:space:]]*} line=${line#"${line%%[![:space:]]*}"}
    part=$line
    ((i < COMP_CWORD)) && part=${COMP_WORDS[i]}
    if ((i == 0)) || [[ $blanks ]]; then
      words+=("$part")
    else
      words[${#words[@]} - 1]+=$part
    fi
    line=${line#"$part"}
  done
  # Candidates take the place of the part that bash completes. A key has any characters that a client
  # has chosen: unless quoted, bash would run $(a command) in a key.
  part=${words[${#words[@]} - 1]}
  words=("${words[@]//[\\\'\"]/}")
  before=${words[${#words[@]} - 1]}
  [[ ${2//[:=]/} ]] && before=${before%"${2//[\\\'\"]/}"}
  mapfile -t found < <(lockmesh internal-complete -- "${words[@]:1}" 2>/dev/null)
  COMPREPLY=()
  for candidate in "${found[@]}"; do
    candidate=${candidate#"$before"}
    printf -v quoted %q "$candidate"
    # Within a quotation that the user has begun, other rules would hold.
    [[ $part == *[\'\"]* && $quoted != "$candidate" ]] || COMPREPLY+=("$quoted")
  done
}
complete -o default -F _lockmesh lockmesh
