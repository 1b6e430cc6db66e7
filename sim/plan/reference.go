package plan

import (
	"fmt"
	"reflect"
	"strings"
)

// Reference returns the table of all fields of a scenario, in Markdown, for docs/planning.md.
func Reference() string {
	var b strings.Builder
	b.WriteString("| field | default | allowed | meaning |\n|---|---|---|---|\n")
	reference(&b, reflect.TypeFor[Scenario](), "")
	return b.String()
}

func reference(b *strings.Builder, t reflect.Type, path string) {
	for _, f := range fields(t) {
		name, tag := path+f.Tag.Get("json"), f.Tag
		row := func(def, allowed string) {
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, def, allowed, tag.Get("doc"))
		}
		def := tag.Get("default")
		switch {
		case tag.Get("need") != "":
			def = "must be given"
		case def == "" && tag.Get("otherwise") != "":
			def = tag.Get("otherwise")
		case def == "":
			def = "none"
		default:
			def = "`" + def + "`"
		}
		switch {
		case f.Type == reflect.TypeFor[[]PairLink]():
			row(def, fmt.Sprintf("a list of %d at most", linksMost))
			name, tag = name+"[].between", fields(f.Type.Elem())[0].Tag
			row("must be given", "two names")
			fmt.Fprintf(b, "| `%s[].…` | | | and every field of link |\n", path+f.Tag.Get("json"))
		case f.Type.Kind() == reflect.Struct:
			row("", "an object")
			reference(b, f.Type, name+".")
		case f.Type.Kind() == reflect.Slice:
			row(def, fmt.Sprintf("a list of %d at most", groupsMost))
			reference(b, f.Type.Elem(), name+"[].")
		case tag.Get("oneof") != "":
			row(def, "`"+strings.Join(strings.Fields(tag.Get("oneof")), "`, `")+"`")
		case f.Type.Kind() == reflect.String:
			row(def, "a string")
		default:
			row(def, bounds(tag))
		}
	}
}
