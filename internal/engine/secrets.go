package engine

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/lockmesh/lockmesh/member"
)

// SetSecrets changes the accepted secrets; the first is sent. The log says if none of them was
// accepted before: such a change cuts the node off from the nodes that don't make the change at the
// same time.
func (eng *Engine) SetSecrets(secrets [][]byte) error {
	eng.setting.Lock()
	defer eng.setting.Unlock()
	kept := slices.ContainsFunc(secrets, func(s []byte) bool { return has(eng.cfg.Secrets, s) })
	if i := joined(eng.cfg.Secrets, secrets); !kept && i >= 0 {
		return fmt.Errorf("secret %d of %d begins or ends with a secret in use, and no secret in use is left: "+
			"an end of line may be missing between the two in a file of secrets", i+1, len(secrets))
	}
	keys, err := eng.links.SetSecrets(secrets)
	if err != nil {
		return err
	}
	eng.cfg.Secrets = slices.Clone(secrets)
	if kept {
		eng.log.Info("the secrets have changed", "accepted", len(secrets))
	} else {
		eng.log.Warn("the secrets have changed, and none of those before is accepted any more: "+
			"this node is cut off from the nodes that don't know the new ones", "accepted", len(secrets))
	}
	return eng.group.SetKeys(keys)
}

// Secrets returns which live nodes use which secret, as far as gossip knows.
func (eng *Engine) Secrets() []member.KeyUse { return eng.group.Keys() }

// joined returns the place of a secret that is one of the old secrets and something before or
// behind it, as when a secret is appended to a file whose last line has no end; -1 without one.
func joined(old, secrets [][]byte) int {
	return slices.IndexFunc(secrets, func(s []byte) bool {
		return slices.ContainsFunc(old, func(o []byte) bool {
			return len(s) > len(o) && (bytes.HasPrefix(s, o) || bytes.HasSuffix(s, o))
		})
	})
}

func has(all [][]byte, s []byte) bool {
	return slices.ContainsFunc(all, func(o []byte) bool { return bytes.Equal(o, s) })
}
