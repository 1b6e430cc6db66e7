package deploy

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/nomad/api"
)

// Nomad's own parser isn't under an open-source licence, but its types are, with the names of
// blocks and attributes. A name missing in the types is an error.
func TestTheJobOfNomad(t *testing.T) {
	const path = "nomad/locks.nomad.hcl"
	file, diags := hclparse.NewParser().ParseHCLFile(path)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	body := file.Body.(*hclsyntax.Body)
	if len(body.Blocks) != 1 || body.Blocks[0].Type != "job" || len(body.Attributes) != 0 {
		t.Fatalf("%d blocks", len(body.Blocks))
	}
	w := &walk{t: t, env: make(map[string]string), times: make(map[string]time.Duration)}
	w.body(body.Blocks[0].Body, reflect.TypeFor[api.Job](), "job")
	if w.blocks < 12 {
		t.Errorf("only %d blocks were read", w.blocks)
	}
	w.secrets()
	lines := w.peers()
	w.env["LOCKMESH_PEERS"] = strings.ReplaceAll(w.env["LOCKMESH_PEERS"], "${NOMAD_TASK_DIR}", "/local")
	accepts(t, w.env)
	w.env["LOCKMESH_PEERS"] = strings.Join(lines, ",") // the same form as in the file
	accepts(t, w.env)
	kill := w.times["task kill_timeout"]
	if needs := graceOf(t, w.env); kill <= needs {
		t.Errorf("the service needs %v to end, and is killed after %v", needs, kill)
	}
	opens := readyLimit(t)
	for _, block := range []string{"update", "migrate"} {
		healthy, deadline := w.times[block+" min_healthy_time"], w.times[block+" healthy_deadline"]
		if healthy <= kill {
			t.Errorf("%s ends the next allocation %v after a start: the one before may run for %v", block, healthy, kill)
		}
		// Nomad starts the clock of the deadline before the image is loaded.
		if least := opens + healthy + time.Minute; deadline < least {
			t.Errorf("%s gives an allocation up after %v: its gate may open after %v, so it takes %v to be healthy", block, deadline, opens, least)
		}
	}
	if deadline, progress := w.times["update healthy_deadline"], w.times["update progress_deadline"]; progress <= deadline {
		t.Errorf("an update fails after %v without progress, and an allocation has %v", progress, deadline)
	}
}

type walk struct {
	t      *testing.T
	blocks int
	env    map[string]string
	times  map[string]time.Duration // by block and attribute
	files  []map[string]string      // the attributes of each template
}

// secrets holds the templates to a change of the secret, in which the variable has a line for each
// of two secrets: the change restarts no task, for else Nomad would restart all of them within
// seconds, and the service reads both. (Nomad refuses a file for the environment with a line that
// isn't NAME=value.)
func (w *walk) secrets() {
	w.t.Helper()
	variables := 0
	for _, f := range w.files {
		if f["change_mode"] != "noop" {
			w.t.Errorf("a change of %s has the change_mode %q: all tasks are restarted at once", f["destination"], f["change_mode"])
		}
		if !strings.Contains(f["data"], "nomadVar") {
			continue
		}
		variables++
		if f["env"] != "" {
			w.t.Errorf("%s is a file for the environment, and has no room for a second line", f["destination"])
		}
		if in := strings.ReplaceAll(w.env["LOCKMESH_SECRET_FILE"], "${NOMAD_SECRETS_DIR}", "secrets"); in != f["destination"] {
			w.t.Errorf("the service reads %q, and the template is %q", in, f["destination"])
		}
		var text strings.Builder
		if err := template.Must(template.New("").Funcs(template.FuncMap{"nomadVar": func(string) map[string]string {
			return map[string]string{"secret": "kQ7vXw2-first-hB9zLm4TgY8s\nkQ7vXw2-second-hB9zLm4TgY8s"}
		}}).Parse(f["data"])).Execute(&text, nil); err != nil {
			w.t.Fatal(err)
		}
		file := filepath.Join(w.t.TempDir(), "secret")
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			w.t.Fatal(err)
		}
		w.env["LOCKMESH_SECRET_FILE"] = file
	}
	if variables != 1 {
		w.t.Errorf("%d templates have variables", variables)
	}
}

// peers renders the file of the addresses, and returns its lines. Nomad reports addresses without
// brackets.
func (w *walk) peers() []string {
	w.t.Helper()
	type allocation struct {
		Address string
		Port    int
	}
	var text strings.Builder
	for _, f := range w.files {
		if !strings.Contains(f["data"], "nomadService") {
			continue
		}
		if in := strings.ReplaceAll(w.env["LOCKMESH_PEERS"], "file:${NOMAD_TASK_DIR}", "local"); in != f["destination"] {
			w.t.Errorf("the service reads %q, and the template is %q", in, f["destination"])
		}
		if err := template.Must(template.New("").Funcs(template.FuncMap{
			"nomadService": func(string) []allocation { return []allocation{{"10.1.2.3", 7950}, {"fd00::1", 7950}} },
			"contains":     func(part, text string) bool { return strings.Contains(text, part) }, // as in consul-template
		}).Parse(f["data"])).Execute(&text, nil); err != nil {
			w.t.Fatal(err)
		}
	}
	lines := strings.Fields(text.String())
	if len(lines) != 2 {
		w.t.Errorf("two allocations have the addresses %q", lines)
	}
	return lines
}

// body compares a block with a type.
func (w *walk) body(b *hclsyntax.Body, of reflect.Type, where string) {
	w.t.Helper()
	for name, a := range b.Attributes {
		f, ok := field(of, name)
		if !ok {
			w.t.Errorf("%s: Nomad knows no %s in %s", a.Range(), name, where)
			continue
		}
		if value, diags := a.Expr.Value(nil); !diags.HasErrors() && base(f.Type) == reflect.TypeFor[time.Duration]() {
			d, err := time.ParseDuration(value.AsString())
			if err != nil {
				w.t.Error(err)
			}
			w.times[where+" "+name] = d
		}
		if k := base(f.Type).Kind(); k == reflect.Struct && base(f.Type) != reflect.TypeFor[time.Duration]() {
			w.t.Errorf("%s: %s is a block in Nomad", a.Range(), name)
		}
	}
	if of == reflect.TypeFor[api.Template]() {
		attributes := make(map[string]string)
		for name, a := range b.Attributes {
			attributes[name] = ""
			if value, diags := a.Expr.Value(nil); !diags.HasErrors() && value.Type().FriendlyName() == "string" {
				attributes[name] = value.AsString()
			} else if !diags.HasErrors() && value.True() {
				attributes[name] = "true"
			}
		}
		w.files = append(w.files, attributes)
	}
	for _, block := range b.Blocks {
		w.blocks++
		f, ok := field(of, block.Type)
		if !ok {
			w.t.Errorf("%s: Nomad knows no block %s in %s", block.Range(), block.Type, where)
			continue
		}
		switch inner := base(f.Type); inner.Kind() {
		case reflect.Struct:
			w.body(block.Body, inner, block.Type)
		case reflect.Map: // free names, such as the names of the environment
			if block.Type == "env" {
				for name, a := range block.Body.Attributes {
					w.env[name] = text(a.Expr, w.t)
				}
			}
		default:
			w.t.Errorf("%s: %s is no block in Nomad", block.Range(), block.Type)
		}
	}
}

// text returns a string, with its variables as written.
func text(e hclsyntax.Expression, t *testing.T) string {
	if value, diags := e.Value(nil); !diags.HasErrors() {
		return value.AsString()
	}
	wrap, ok := e.(*hclsyntax.TemplateWrapExpr)
	if ok {
		return "${" + variable(wrap.Wrapped) + "}"
	}
	template, ok := e.(*hclsyntax.TemplateExpr)
	if !ok {
		t.Fatalf("%s: no text", e.Range())
	}
	var all strings.Builder
	for _, part := range template.Parts {
		if value, diags := part.Value(nil); !diags.HasErrors() {
			all.WriteString(value.AsString())
		} else {
			all.WriteString("${" + variable(part) + "}")
		}
	}
	return all.String()
}

func variable(e hclsyntax.Expression) string {
	for _, v := range e.Variables() {
		return v.RootName()
	}
	return ""
}

// base returns the element type of a pointer or a list.
func base(of reflect.Type) reflect.Type {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	return of
}

// field returns the field into which Nomad reads a name. The ports of a network have two kinds, and
// both blocks are called port.
func field(of reflect.Type, name string) (reflect.StructField, bool) {
	for i := range of.NumField() {
		f := of.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("hcl"), ",")
		switch {
		case tag == name:
			return f, true
		case of == reflect.TypeFor[api.NetworkResource]() && name == "port" && f.Name == "ReservedPorts":
			return f, true
		case of == reflect.TypeFor[api.Template]() && name == "env" && f.Name == "Envvars":
			return f, true
		}
	}
	return reflect.StructField{}, false
}
