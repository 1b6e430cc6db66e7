package main

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table of docs/command.md has the fields of all objects that aren't objects of the HTTP API,
// and no others.
func TestThePageHasTheFieldsOfEachObject(t *testing.T) {
	page, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([a-z_]+)`")
	for verb, object := range map[string]any{
		"lock": held{}, "doctor": finding{}, "rotate": rotation{}, "keygen": newSecret{}, "version": version{}, "revoke": success{},
	} {
		_, row, _ := strings.Cut(string(page), "\n| `"+verb+"`")
		_, fields, _ := strings.Cut(row, "|")
		fields, _, _ = strings.Cut(fields, "|")
		var got, want []string
		for _, m := range quoted.FindAllStringSubmatch(fields, -1) {
			got = append(got, m[1])
		}
		for i := range reflect.TypeOf(object).NumField() {
			name, _, _ := strings.Cut(reflect.TypeOf(object).Field(i).Tag.Get("json"), ",")
			want = append(want, name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the page has %q, the command prints %q", verb, got, want)
		}
	}
}
