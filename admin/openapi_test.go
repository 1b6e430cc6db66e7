package admin

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// operation is the description of a route in openapi.json, beyond the fields of the route itself.
type operation struct {
	id, summary string
	body        any    // nil without
	answer      any    // nil for 204
	stream      string // the content type of a stream of answers
}

var operations = map[string]operation{
	"GET /v1/access":              {id: "access", summary: "What the sender of the request may do; any client may ask", answer: Access{}},
	"GET /v1/status":              {id: "status", summary: "The node's view of the mesh", answer: Status{}},
	"GET /v1/members":             {id: "members", summary: "The nodes known to gossip", answer: Members{}},
	"GET /v1/electorate":          {id: "electorate", summary: "The voters as the node sees them", answer: Electorate{}},
	"GET /v1/ready":               {id: "ready", summary: "Answers when this node takes locks and a majority can grant them; the error no_quorum says why not, after the wait, and closed that the node is draining", answer: Electorate{}},
	"GET /v1/settled":             {id: "settled", summary: "Answers when the mesh can do without another voter, the gate of a rolling restart; the error no_quorum says why not, after the wait", answer: Electorate{}},
	"GET /v1/electorate/watch":    {id: "watchElectorate", summary: "The electorate, and each change of it, as server-sent events; the event named end has an Error", answer: Electorate{}, stream: "text/event-stream"},
	"GET /v1/locks":               {id: "locks", summary: "Keys in use, in pages", answer: Locks{}},
	"GET /v1/locks/{key}":         {id: "inspect", summary: "The holders and waiters of a key", answer: Lock{}},
	"GET /v1/watch":               {id: "watch", summary: "Events of a key, or of all keys with a prefix, as server-sent events; the event named end has an Error", answer: Event{}, stream: "text/event-stream"},
	"GET /v1/openapi.json":        {id: "openAPI", summary: "This description", answer: map[string]any{}},
	"POST /v1/locks/{key}/revoke": {id: "revoke", summary: "Asks the holders to release the key", body: RevokeRequest{}},
	"POST /v1/locks/{key}/evict":  {id: "evict", summary: "Ends a lease against its holder's will", body: EvictRequest{}, answer: Evicted{}},
	"POST /v1/drain":              {id: "drain", summary: "Takes no more locks, and waits until none is held"},
	"POST /v1/stop":               {id: "stop", summary: "Ends the node, which will be back"},
	"POST /v1/leave":              {id: "leave", summary: "Ends the node for good; a voter is voted out"},
	"POST /v1/recover":            {id: "recover", summary: "Names new voters when a majority is lost FOR GOOD; only over the owner's socket. A mistake lets two nodes hold a key", body: RecoverRequest{}},
	"PUT /v1/locks/{key}":         {id: "lock", summary: "Takes a lock, which ends by itself unless it is extended", answer: Lease{}},
	"GET /v1/leases/{id}":         {id: "lease", summary: "The state of a lease", answer: Lease{}},
	"POST /v1/leases/{id}/extend": {id: "extend", summary: "The lease ends ttl from now, or at its present end if that is later", answer: Lease{}},
	"DELETE /v1/leases/{id}":      {id: "unlock", summary: "Releases a lease"},
	"GET /v1/hold/{key}":          {id: "holdByGet", summary: "As PUT, for clients that send nothing else; not without a token", answer: HoldLine{}, stream: "application/jsonl"},
	"PUT /v1/hold/{key}":          {id: "hold", summary: "Holds a lock as long as the connection lives: a line when it is held, and more lines until the end", answer: HoldLine{}, stream: "application/jsonl"},
}

// parameters are all parameters, with their types.
var parameters = map[string]struct{ kind, text string }{
	"key":          {"string", "The name of the lock, percent-encoded: up to 512 bytes of UTF-8 without control characters. Slashes may be written as such or as %2F"},
	"id":           {"string", "The id of a lease, from the answer to PUT /v1/locks/{key}"},
	"prefix":       {"string", "Only keys that begin with this; all keys without"},
	"after":        {"string", "Only keys after this one, by name: next of the page before"},
	"limit":        {"integer", "The length of a page, up to 1000; 100 without"},
	"ttl":          {"duration", "The length of the lease, such as 10s. Without: the longest allowed; for a hold, the node's own; for an extension, that of before. An extension is no longer than the lease was at its grant: the voters keep the key no longer after a crash of the node"},
	"wait":         {"duration", "How long to wait, such as 30s, up to 24h. A lock isn't waited for without; an eviction for 30s, other actions for a minute. ready and settled: up to 1m, and none without"},
	"mode":         {"string", "exclusive, shared or permit; exclusive without"},
	"permits":      {"integer", "The number of permits of a semaphore, 1 to 1024, on which all users of the key agree"},
	"value":        {"string", "Shown to others with the lease, up to 4096 bytes"},
	"value_base64": {"string", "The same, in base64 with the URL's alphabet and padding"},
	"min_hold":     {"duration", "Keeps the key from all others until so long after the grant"},
	"delay":        {"duration", "Keeps the key from all others for so long after the lease was lost; with ttl no more than MaxTTL"},
	"revoke":       {"string", "Asks the holders to release the key while the request waits; the value is the reason shown to them, and may be empty"},
}

func TestOpenAPI(t *testing.T) {
	data := describe(t)
	if *update {
		must(t, os.WriteFile("openapi.json", data, 0o644))
		return
	}
	if !bytes.Equal(openAPI, data) {
		t.Error("openapi.json isn't what routes and types say; go test ./admin -run TestOpenAPI -update writes it anew")
	}
}

// TestEveryRouteIsListed compares the routes with the list at New.
func TestEveryRouteIsListed(t *testing.T) {
	source, err := os.ReadFile("handler.go")
	must(t, err)
	var listed, exist []string
	for _, m := range regexp.MustCompile(`(?m)^//\s+(GET|PUT|POST|DELETE)\s+(/v1/\S+)`).FindAllStringSubmatch(string(source), -1) {
		listed = append(listed, m[1]+" "+m[2])
	}
	for _, r := range routes {
		if r.method+r.path != "GET"+holdPath { // documented with PUT
			exist = append(exist, r.method+" "+r.path)
		}
	}
	slices.Sort(listed)
	slices.Sort(exist)
	if !slices.Equal(listed, exist) {
		t.Errorf("New lists\n%s\nand there are\n%s", strings.Join(listed, "\n"), strings.Join(exist, "\n"))
	}
}

type object = map[string]any

// describe makes the description from routes, operations and types.
func describe(t *testing.T) []byte {
	d := &describer{t: t, schemas: object{}, docs: fieldDocs(t)}
	paths := map[string]object{}
	left := maps.Clone(operations)
	for _, r := range routes {
		name := r.method + " " + r.path
		op, ok := operations[name]
		if !ok {
			t.Errorf("operations lacks %s", name)
		}
		delete(left, name)
		if paths[r.path] == nil {
			paths[r.path] = object{}
		}
		paths[r.path][strings.ToLower(r.method)] = d.operation(r, op)
	}
	for name := range left {
		t.Errorf("operations has %s, and there is no such route", name)
	}
	d.schema(reflect.TypeFor[Error]())
	data, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "lockmesh admin", "version": "1", "license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "A node's state and locks over HTTP. Errors are an Error in JSON; error is its code. Durations are milliseconds in fields that end in _ms, and microseconds in fields that end in _us; tokens are integers of up to 63 bits. Ignore unknown fields.",
		},
		"servers":    []object{{"url": "/"}},
		"security":   []object{{"token": []string{}}, {}},
		"paths":      paths,
		"components": object{"schemas": d.schemas, "securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "Not needed over the owner's socket"}}},
	}, "", " ")
	must(t, err)
	return append(data, '\n')
}

type describer struct {
	t       *testing.T
	schemas object
	docs    map[string]string
}

func (d *describer) operation(r *route, op operation) object {
	var params []object
	add := func(name, in string) {
		p, ok := parameters[name]
		if !ok {
			d.t.Errorf("parameters lacks %s", name)
		}
		schema := object{"type": p.kind}
		if p.kind == "duration" {
			schema = object{"type": "string", "examples": []string{"10s", "1m30s"}}
		}
		params = append(params, object{"name": name, "in": in, "required": in == "path", "description": p.text, "schema": schema})
	}
	if m := regexp.MustCompile(`\{(\w+)\}`).FindStringSubmatch(r.path); m != nil {
		add(m[1], "path")
	}
	for _, name := range r.query {
		add(name, "query")
	}
	responses := object{"default": object{"description": "An error", "content": object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Error"}}}}}
	if op.answer == nil {
		responses["204"] = object{"description": "Done"}
	} else {
		content := "application/json"
		if op.stream != "" {
			content = op.stream
		}
		responses["200"] = object{"description": "The answer", "content": object{content: object{"schema": d.schema(reflect.TypeOf(op.answer))}}}
	}
	out := object{"operationId": op.id, "summary": op.summary, "responses": responses}
	if params != nil {
		out["parameters"] = params
	}
	if r.body != (op.body != nil) {
		d.t.Errorf("%s %s: whether there is a body is contradictory", r.method, r.path)
	}
	if op.body != nil {
		out["requestBody"] = object{"content": object{"application/json": object{"schema": d.schema(reflect.TypeOf(op.body))}}}
	}
	return out
}

// schema returns the schema of a type; structs are listed under components.
func (d *describer) schema(typ reflect.Type) object {
	switch {
	case typ == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case typ == reflect.TypeFor[Value]():
		return object{
			"description": d.docs["Value"],
			"oneOf":       []object{{"type": "string"}, {"type": "object", "properties": object{"base64": object{"type": "string"}}, "required": []string{"base64"}}},
		}
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return d.schema(typ.Elem())
	case reflect.Slice:
		return object{"type": "array", "items": d.schema(typ.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Map:
		return object{"type": "object"}
	case reflect.Struct:
	default:
		d.t.Fatalf("%v has no schema", typ)
	}
	name := typ.Name()
	ref := object{"$ref": "#/components/schemas/" + name}
	if d.schemas[name] != nil {
		return ref
	}
	properties, required := object{}, []string{}
	d.schemas[name] = object{"type": "object", "description": d.docs[name], "properties": properties, "required": &required}
	for i := range typ.NumField() {
		f := typ.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "-" {
			continue
		}
		text := d.docs[name+"."+f.Name]
		if tag == "" || text == "" {
			d.t.Errorf("%s.%s has no name in JSON, or no comment", name, f.Name)
		}
		s := maps.Clone(d.schema(f.Type))
		if typ == reflect.TypeFor[Error]() && f.Name == "Code" {
			names := []string{"internal"}
			text += " With the status of its answer:"
			for _, c := range codes {
				names = append(names, c.name)
				text += fmt.Sprintf(" %s %d,", c.name, c.status)
			}
			text += " internal 500. Later versions may add codes."
			s["examples"] = names
		}
		s["description"] = text
		properties[tag] = s
		if options == "" && !strings.HasSuffix(name, "Request") {
			required = append(required, tag)
		}
	}
	return ref
}

// fieldDocs returns the comments of types, and of their fields as "Type.Field".
func fieldDocs(t *testing.T) map[string]string {
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range []string{"types.go", "errors.go"} {
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		must(t, err)
		files = append(files, f)
	}
	pkg, err := doc.NewFromFiles(set, files, "admin")
	must(t, err)
	links := regexp.MustCompile(`\[([\w.]+)\]`)
	plain := func(text string) string {
		text, _, _ = strings.Cut(text, "\n\n")
		return strings.TrimSpace(links.ReplaceAllString(strings.Join(strings.Fields(text), " "), "$1"))
	}
	docs := map[string]string{}
	for _, typ := range pkg.Types {
		docs[typ.Name] = plain(typ.Doc)
		spec, _ := typ.Decl.Specs[0].(*ast.TypeSpec)
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				for _, name := range f.Names {
					docs[typ.Name+"."+name.Name] = plain(f.Doc.Text())
				}
			}
		}
	}
	return docs
}
