package lockmesh

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
)

func TestASecretNeverPrintsItself(t *testing.T) {
	const text = "correct horse battery staple"
	cfg := Config{Name: "a", Secret: []byte(text), Logger: slog.New(slog.DiscardHandler)}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%08b", "%t"} {
		fmt.Fprintf(&out, verb+"\n", cfg.Secret)
		fmt.Fprintf(&out, verb+"\n", cfg)
		fmt.Fprintf(&out, verb+"\n", &cfg)
		fmt.Fprintf(&out, verb+"\n", []Secret{cfg.Secret})
	}
	asJSON, err := json.Marshal(struct{ Secret Secret }{cfg.Secret})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(asJSON)
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("line", "secret", cfg.Secret, "all", []any{cfg.Secret}, "struct", struct{ S Secret }{cfg.Secret})
	}
	fmt.Fprintln(&out, cfg.Secret, cfg.Secret.String())
	shown := strings.ToLower(out.String())
	for _, forbidden := range []string{
		text, "battery", fmt.Sprintf("%x", text), fmt.Sprintf("%x", text[:4]), strings.Trim(fmt.Sprintf("%d", []byte(text[:4])), "[]"), "y29ycmvjd",
	} {
		if strings.Contains(shown, forbidden) {
			t.Errorf("%q is shown", forbidden)
		}
	}
	if !strings.Contains(shown, "[secret]") || string(cfg.Secret) != text {
		t.Error("the secret isn't mentioned, or is lost")
	}
	if got := fmt.Sprint(Secret(nil)); got != "[no secret]" {
		t.Error(got)
	}
}

// A secret in JSON is the text itself, as in an environment variable, and not base64. A hidden
// secret can't be read back.
func TestASecretIsReadAsText(t *testing.T) {
	const hex = "000102030405060708090a0b0c0d0e0f" // also valid base64
	var c struct{ Secret, None Secret }
	if err := json.Unmarshal([]byte(`{"Secret":"`+hex+`"}`), &c); err != nil || string(c.Secret) != hex || c.None != nil {
		t.Errorf("%q, %v", []byte(c.Secret), err)
	}
	for _, s := range []Secret{nil, Secret(hex)} {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back Secret
		if err := json.Unmarshal(text, &back); err == nil || back != nil {
			t.Errorf("%s is read back as %q", text, []byte(back))
		}
	}
}

// Applications log what they have joined. A Mesh prints the node's name: neither a secret nor any
// other field.
func TestAMeshPrintsItsNameAndNoSecret(t *testing.T) {
	const text = "kQ7vXw2-first-hB9zLm4TgY8s"
	for name, set := range map[string]func(*Config){
		"Secret":  func(c *Config) { c.Secret = Secret(text) },
		"Secrets": func(c *Config) { c.Secrets = []Secret{Secret(text), NewSecret()} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				m := w.join("node-a", []string{"node-a"}, set)
				for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
					if got := fmt.Sprintf(verb, m); got != "node-a" {
						t.Errorf("%s prints %q", verb, got)
					}
				}
				var out bytes.Buffer
				for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
					slog.New(h).Info("joined", "mesh", m, "all", []any{m})
				}
				if s := out.String(); !strings.Contains(s, "mesh=node-a") || !strings.Contains(s, `"mesh":"node-a"`) {
					t.Error("the log lines lack the name")
				}
				fmt.Fprintf(&out, "%v %s %x", m.cfg, m.cfg.Secret, m.cfg.Secrets)
				if len(m.cfg.secrets()) > 0 {
					t.Error("the Mesh keeps a secret, which a printed copy of the Mesh would show")
				}
				for _, forbidden := range []string{"first", fmt.Sprintf("%x", text[:4]), strings.Trim(fmt.Sprintf("%d", []byte(text[:4])), "[]")} {
					if strings.Contains(out.String(), forbidden) {
						t.Errorf("%q is shown", forbidden)
					}
				}
			})
		})
	}
	var none *Mesh
	if got := fmt.Sprint(none, new(Mesh)); got != "[no mesh] [no mesh]" {
		t.Error(got)
	}
}

func TestNewSecret(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		s := NewSecret()
		seen[string(s)] = true
		if len(s) != 43 || s.weakness() != "" || strings.ContainsFunc(string(s), func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '$' }) {
			t.Fatalf("%q: %s", string(s), s.weakness())
		}
	}
	if len(seen) != 1000 {
		t.Errorf("%d different secrets of 1000", len(seen))
	}
}

func TestAnObviouslyWeakSecretIsRefused(t *testing.T) {
	for _, weak := range []string{
		strings.Repeat("\x00", 16), strings.Repeat("a", 64), "0000000000000001", "abababababababab", "passwordpassword", "secretsecretsecret",
		"0123456789abcdef", "abcdefghijklmnopqrstuvwxyz", "9876543210987654", "changemechangeme",
	} {
		cfg := Config{Name: "a", Voters: []string{"a"}, Secret: []byte(weak)}
		err := cfg.Validate()
		wantIs(t, err, ErrConfig)
		if err == nil || !strings.Contains(err.Error(), "Secret: ") || strings.Contains(err.Error(), weak) {
			t.Errorf("%q: %v", weak, err)
		}
	}
	for range 10_000 {
		s := make(Secret, MinSecretLen)
		_, _ = rand.Read(s)
		if why := s.weakness(); why != "" {
			t.Fatalf("%x, which is random: %s", []byte(s), why)
		}
	}
}

func TestTheListOfSecrets(t *testing.T) {
	one, two := NewSecret(), NewSecret()
	for _, row := range []struct {
		name string
		edit func(*Config)
		says string // empty: the configuration is valid
	}{
		{"one", func(c *Config) { c.Secrets = []Secret{one} }, ""},
		{"several", func(c *Config) { c.Secrets = []Secret{one, two, NewSecret()} }, ""},
		{"too many", func(c *Config) { c.Secrets = []Secret{one, two, one, two} }, "Secrets: there are 4, and 3 are accepted at a time"},
		{"both", func(c *Config) { c.Secret, c.Secrets = one, []Secret{two} }, "Secrets: Secret is set, too"},
		{"a weak one", func(c *Config) { c.Secrets = []Secret{one, Secret("0000000000000000")} }, "Secrets: secret 2 of 2: it can be guessed"},
		{"a short one", func(c *Config) { c.Secrets = []Secret{Secret("short")} }, "Secrets: secret 1 of 1: it has 5 bytes"},
	} {
		cfg := Config{Name: "a", Voters: []string{"a"}, Bind: "0.0.0.0:7950"}
		row.edit(&cfg)
		err := cfg.Validate()
		if row.says == "" && err != nil || row.says != "" && (err == nil || !strings.Contains(err.Error(), row.says)) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// A change of the secrets that leaves none of those before cuts the node off, and the log says so.
// A secret that is joined with one in use, as by a missing end of line, is refused.
func TestASecretThatIsJoinedWithAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		var log lockedBuffer
		first, second, third := NewSecret(), NewSecret(), NewSecret()
		a := w.join("a", []string{"a"}, func(c *Config) {
			c.Insecure, c.Secret, c.Logger = false, first, slog.New(slog.NewTextHandler(&log, nil))
		})
		joined := func(all ...Secret) Secret { return Secret(bytes.Join([][]byte{all[0], all[1]}, nil)) }
		for _, secrets := range [][]Secret{{joined(first, second)}, {joined(second, first)}, {second, joined(first, third)}} {
			err := a.SetSecrets(secrets...)
			if wantIs(t, err, ErrConfig); err == nil || !strings.Contains(err.Error(), "end of line") || strings.Contains(err.Error(), string(first[:8])) {
				t.Errorf("the error is %v", err)
			}
		}
		const warning = "none of those before is accepted any more"
		for i, secrets := range [][]Secret{{first, second}, {joined(second, third), second}, {third}, {third, joined(third, first)}} {
			before := len(log.String())
			if err := a.SetSecrets(secrets...); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			text := log.String()[before:]
			if warns := strings.Contains(text, warning); warns != (i == 2) || !strings.Contains(text, "the secrets have changed") {
				t.Errorf("change %d is logged as %s", i, text)
			}
		}
	})
}

func TestSetSecretsOfANodeWithoutOne(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		for _, secrets := range [][]Secret{nil, {Secret("short")}, {NewSecret(), NewSecret(), NewSecret(), NewSecret()}} {
			wantIs(t, a.SetSecrets(secrets...), ErrConfig)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		wantIs(t, a.SetSecrets(NewSecret()), ErrClosed)
	})
}
