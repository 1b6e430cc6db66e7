#compdef lockmesh
# Completion of lockmesh for zsh: lockmesh completion zsh > "${fpath[1]}/_lockmesh"
_lockmesh() {
  local i=${words[(i)--]}
  # Behind the first -- of run and lead is a command with words of its own.
  if ((i > 1 && i < CURRENT)) && ((${words[1,i][(Ie)run]} || ${words[1,i][(Ie)lead]})); then
    shift $i words
    ((CURRENT -= i))
    _normal
    return
  fi
  local -a found
  found=("${(@f)$(lockmesh internal-complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  found=("${(@)found:#}")
  if ((${#found})); then
    compadd -a -- found
  else
    _files # of a flag, such as --socket
  fi
}
if [[ ${funcstack[1]} == _lockmesh ]]; then
  _lockmesh "$@"
else
  compdef _lockmesh lockmesh
fi
