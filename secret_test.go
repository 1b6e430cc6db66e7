package lockmesh

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
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
		text, "battery", fmt.Sprintf("%x", text), fmt.Sprintf("%x", text[:4]), strings.Trim(fmt.Sprint([]byte(text)[:4]), "[]"), "y29ycmvjd",
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
