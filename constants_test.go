package lockmesh

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/watchmerge"
	"github.com/lockmesh/lockmesh/transport"
)

// The constants of this package are written as values, so that go doc shows them; they are those of the core.
func TestConstantsAreThoseOfTheCore(t *testing.T) {
	for _, row := range []struct {
		name     string
		here, of any
	}{
		{"MinTTL", MinTTL, vote.MinTTL},
		{"MaxVoters", MaxVoters, vote.MaxVoters},
		{"DefaultMaxVoters", DefaultMaxVoters, electorate.MaxVoters},
		{"MaxKeyLen", MaxKeyLen, vote.MaxKeyLen},
		{"MaxValueLen", MaxValueLen, vote.MaxValueLen},
		{"MaxReasonLen", MaxReasonLen, vote.MaxTextLen},
		{"MinSecretLen", MinSecretLen, transport.MinSecret},
		{"MaxSecrets", MaxSecrets, transport.MaxSecrets},
		{"MaxPermits", MaxPermits, vote.MaxPermits},
		{"Exclusive", vote.Mode(Exclusive), vote.Exclusive},
		{"Shared", vote.Mode(Shared), vote.Shared},
		{"Permit", vote.Mode(Permit), vote.Permit},
		{"Granted", watchmerge.Kind(Granted), watchmerge.Granted},
		{"Released", watchmerge.Kind(Released), watchmerge.Released},
		{"Lost", watchmerge.Kind(Lost), watchmerge.Lost},
		{"Waiting", watchmerge.Kind(Waiting), watchmerge.Waiting},
		{"Changed", watchmerge.Kind(Changed), watchmerge.Changed},
		{"Gap", watchmerge.Kind(Gap), watchmerge.Gap},
		{"Synced", watchmerge.Kind(Synced), watchmerge.Synced},
	} {
		if row.here != row.of {
			t.Errorf("%s is %v here and %v in the core", row.name, row.here, row.of)
		}
	}
}
