#compdef lockmesh
# Completion of lockmesh for zsh: lockmesh completion zsh > "${fpath[1]}/_lockmesh"
_lockmesh() {
  local i=${words[(I)--]}
  if ((i > 1 && i < CURRENT)); then # behind -- is a command with words of its own
    shift $i words
    ((CURRENT -= i))
    _normal
    return
  fi
  local -a found
  found=("${(@f)$(lockmesh internal-complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  compadd -- ${(@)found:#}
}
if [[ ${funcstack[1]} == _lockmesh ]]; then
  _lockmesh "$@"
else
  compdef _lockmesh lockmesh
fi
