package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fileMost bounds a scenario file: hundreds of times the size of an example.
const fileMost = 1 << 20

// Read reads a scenario. Each override is "field=value", such as ttl=5s, link.loss=0.02 or
// groups.west.voters=5, and takes precedence over the file. The error lists all problems, by field.
func Read(r io.Reader, overrides ...string) (*Scenario, error) {
	text, err := io.ReadAll(io.LimitReader(r, fileMost+1))
	if err != nil {
		return nil, err
	}
	if len(text) > fileMost {
		return nil, fmt.Errorf("it is longer than %d bytes", fileMost)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var tree map[string]any
	if err := d.Decode(&tree); err != nil {
		return nil, where(text, d, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the closing brace: a file has one scenario")
	}
	if tree == nil {
		return nil, errors.New("it is null: a scenario is an object in braces")
	}
	for _, o := range overrides {
		if err := override(tree, o); err != nil {
			return nil, err
		}
	}
	s := new(Scenario)
	var all problems
	all.fill(reflect.ValueOf(s).Elem(), tree, "")
	if len(all) == 0 {
		s.complete()
		all = s.check()
	}
	if len(all) > 0 {
		return nil, errors.New(strings.Join(all, "\n"))
	}
	return s, nil
}

// where adds the line to a syntax error.
func where(text []byte, d *json.Decoder, err error) error {
	at := d.InputOffset()
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &kind):
		return fmt.Errorf("it is a JSON %s: a scenario is an object in braces", kind.Value)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it ends too soon: a scenario is an object in braces")
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(text[:min(at, int64(len(text)))], []byte("\n")), err)
}

// override sets one field of the tree. In a list, a step of the path is the index (from 0) or the
// name of an element.
func override(tree map[string]any, o string) error {
	path, text, ok := strings.Cut(o, "=")
	if !ok || path == "" {
		return fmt.Errorf("%q isn't field=value, like ttl=5s", o)
	}
	var value any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&value) != nil || d.InputOffset() != int64(len(text)) {
		value = text // such as 5s
	}
	steps := strings.Split(path, ".")
	var here any = tree
	for i, step := range steps {
		last := i == len(steps)-1
		switch at := here.(type) {
		case map[string]any:
			if last {
				at[step] = value
				return nil
			}
			if at[step] == nil {
				at[step] = map[string]any{}
			}
			here = at[step]
		case []any:
			n := slices.IndexFunc(at, func(e any) bool {
				m, ok := e.(map[string]any)
				return ok && m["name"] == step
			})
			if n < 0 {
				var err error
				if n, err = strconv.Atoi(step); err != nil || n < 0 || n >= len(at) {
					return fmt.Errorf("%s: %s is a list of %d, which has no element %q", o, strings.Join(steps[:i], "."), len(at), step)
				}
			}
			if last {
				at[n] = value
				return nil
			}
			here = at[n]
		default:
			return fmt.Errorf("%s: %s has no fields", o, strings.Join(steps[:i], "."))
		}
	}
	return nil
}

// problems are the errors in a scenario, a line for each.
type problems []string

func (p *problems) add(path, format string, args ...any) {
	*p = append(*p, strings.TrimPrefix(path, ".")+": "+fmt.Sprintf(format, args...))
}

// fields lists a struct's fields, with the fields of embedded structs in their place.
func fields(t reflect.Type) (all []reflect.StructField) {
	for _, f := range reflect.VisibleFields(t) {
		if !f.Anonymous {
			all = append(all, f)
		}
	}
	return all
}

// fill sets a struct's fields to their defaults and then to the values in the tree.
func (p *problems) fill(v reflect.Value, tree any, path string) {
	m, ok := tree.(map[string]any)
	if !ok {
		p.add(path, "%s: it must be an object in braces", show(tree))
		return
	}
	known := make(map[string]bool)
	var names []string
	for _, f := range fields(v.Type()) {
		name := f.Tag.Get("json")
		names = append(names, name)
		known[name] = true
		value, given := m[name]
		p.one(v.FieldByIndex(f.Index), f.Tag, value, given && value != nil, path+"."+name)
	}
	var strange []string
	for k := range m {
		if !known[k] {
			strange = append(strange, k)
		}
	}
	slices.Sort(strange)
	for _, k := range strange {
		p.add(path+"."+k, "there is no such field; there are %s", strings.Join(names, ", "))
	}
}

// one fills one field.
func (p *problems) one(v reflect.Value, tag reflect.StructTag, value any, given bool, path string) {
	if !given && tag.Get("need") != "" {
		p.add(path, "it isn't given: %s", tag.Get("doc"))
		return
	}
	switch v.Interface().(type) {
	case Duration:
		p.duration(v, tag, value, given, path)
		return
	case []string:
		list, ok := value.([]any)
		for _, e := range list {
			s, isString := e.(string)
			ok = ok && isString
			v.Set(reflect.Append(v, reflect.ValueOf(s)))
		}
		if !ok {
			p.add(path, "%s: it must be a list of strings", show(value))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if !given {
			value = map[string]any{}
		}
		p.fill(v, value, path)
	case reflect.Slice:
		if !given {
			return
		}
		list, ok := value.([]any)
		if !ok {
			p.add(path, "%s: it must be a list in brackets", show(value))
			return
		}
		if most := linksMost; len(list) > most {
			p.add(path, "it has %d elements, and may have %d", len(list), most)
			return
		}
		for i, e := range list {
			one := reflect.New(v.Type().Elem()).Elem()
			p.fill(one, e, fmt.Sprintf("%s[%d]", path, i))
			v.Set(reflect.Append(v, one))
		}
	case reflect.String:
		p.text(v, tag, value, given, path)
	default:
		p.number(v, tag, value, given, path)
	}
}

func (p *problems) text(v reflect.Value, tag reflect.StructTag, value any, given bool, path string) {
	s := tag.Get("default")
	if given {
		var ok bool
		if s, ok = value.(string); !ok {
			p.add(path, "%s: it must be a string in quotes", show(value))
			return
		}
	}
	if of := strings.Fields(tag.Get("oneof")); len(of) > 0 && !slices.Contains(of, s) {
		p.add(path, "%q: it must be one of %s", s, strings.Join(of, ", "))
		return
	}
	v.SetString(s)
}

func (p *problems) duration(v reflect.Value, tag reflect.StructTag, value any, given bool, path string) {
	s := tag.Get("default")
	if given {
		var ok bool
		if s, ok = value.(string); !ok {
			p.add(path, `%s: it must be a duration in quotes, like "30ms" or "1h30m"`, show(value))
			return
		}
	} else if s == "" {
		v.SetInt(unset)
		return
	}
	d, err := time.ParseDuration(s)
	least, most := duration(tag.Get("min")), duration(tag.Get("max"))
	never := tag.Get("zero") != ""
	switch {
	case err != nil:
		p.add(path, `%q: it must be a duration like "30ms" or "1h30m"`, s)
	case d == 0 && never:
	case d < least || d > most:
		p.add(path, "%s: it must be %s", s, bounds(tag))
	}
	v.SetInt(int64(d))
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(fmt.Sprintf("plan: a tag has the duration %q", s))
	}
	return d
}

// bounds describes the allowed values of a field.
func bounds(tag reflect.StructTag) string {
	s := tag.Get("min") + " to " + tag.Get("max")
	if tag.Get("zero") != "" {
		s += ", or 0s for never"
	}
	return s
}

func (p *problems) number(v reflect.Value, tag reflect.StructTag, value any, given bool, path string) {
	n := json.Number(tag.Get("default"))
	if given {
		var ok bool
		if n, ok = value.(json.Number); !ok {
			p.add(path, "%s: it must be a number", show(value))
			return
		}
	} else if n == "" {
		v.SetInt(unset)
		return
	}
	whole := " whole"
	var ok bool
	switch v.Kind() {
	case reflect.Int:
		i, err := strconv.ParseInt(n.String(), 10, 64)
		least, _ := strconv.ParseInt(tag.Get("min"), 10, 64)
		most, _ := strconv.ParseInt(tag.Get("max"), 10, 64)
		ok = err == nil && i >= least && i <= most
		v.SetInt(i)
	case reflect.Uint64:
		u, err := strconv.ParseUint(n.String(), 10, 64)
		ok = err == nil
		v.SetUint(u)
	case reflect.Float64:
		whole = ""
		f, err := n.Float64()
		least, _ := strconv.ParseFloat(tag.Get("min"), 64)
		most, _ := strconv.ParseFloat(tag.Get("max"), 64)
		ok = err == nil && f >= least && f <= most && !math.IsNaN(f)
		v.SetFloat(f)
	default:
		panic("plan: a field of kind " + v.Kind().String())
	}
	if !ok {
		p.add(path, "%s: it must be a%s number, %s", n, whole, bounds(tag))
	}
}

// show prints a value in the file's notation, shortened.
func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(b) > 60 {
		return string(b[:57]) + "..."
	}
	return string(b)
}
