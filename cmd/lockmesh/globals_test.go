package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The same file gives the same secrets to the command, the agent, examples/service and
// examples/witness, with blanks around a line, too.
func TestLinesOfSecrets(t *testing.T) {
	const first, second = "kQ7vXw2-first-hB9zLm4TgY8s", "pR3nDc6-second-jF5aVu1WeK0x"
	path := filepath.Join(t.TempDir(), "secret")
	for _, text := range []string{first + "\n" + second, first + " \r\n\n\t" + second + " \n\n", " " + first + "\n" + second + "\t"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, env := range []struct{ value, file string }{{text, ""}, {"", path}} {
			t.Setenv("LOCKMESH_SECRET", env.value)
			t.Setenv("LOCKMESH_SECRET_FILE", env.file)
			all, err := secrets()
			if err != nil || len(all) != 2 || string(all[0]) != first || string(all[1]) != second {
				t.Errorf("%q: %d secrets, %v", text, len(all), err)
			}
		}
	}
	t.Setenv("LOCKMESH_SECRET_FILE", "")
	for text, wrong := range map[string]bool{"": false, " \n\t": true} {
		t.Setenv("LOCKMESH_SECRET", text)
		if all, err := secrets(); len(all) != 0 || (err != nil) != wrong {
			t.Errorf("%q: %d secrets, %v", text, len(all), err)
		}
	}
}
