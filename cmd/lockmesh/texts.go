package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

// describe returns the text for the user about an error: the failure, and advice.
func describe(err error) string {
	text := err.Error()
	var e *admin.Error
	if errors.As(err, &e) {
		advice := e.Advice
		if own, ok := advices[e.Code]; ok {
			advice = own
		}
		if refutes(err) {
			advice = "lockmesh inspect shows the holders with their tokens"
		}
		message := e.Message
		if e.Code == "held" && e.Lock == nil {
			advice = heldAdvice
		}
		if e.Lock != nil {
			message = fmt.Sprintf("%s: %s", safe(e.Lock.Key), holdersLine(e.Lock))
		}
		text = strings.Replace(text, e.Error(), message+" ("+advice+")", 1)
	}
	if errors.Is(err, admin.ErrNoAnswer) && !errors.Is(err, errNoAgent) {
		text = strings.ReplaceAll(text, context.DeadlineExceeded.Error(), "it took longer than --timeout")
		text += " (" + noAnswerAdvice + ")"
	}
	if errors.Is(err, lockmesh.ErrConfig) {
		text = nameSettings(text)
	}
	text = optionTTL.ReplaceAllString(text, "--ttl $1")
	text = strings.ReplaceAll(text, "\nlockmesh: the configuration is wrong: ", "; ")
	text = strings.ReplaceAll(text, "\n", "; ")
	text = strings.ReplaceAll(text, ": lockmesh: ", ": ")
	text = lostTwice.ReplaceAllString(text, "$1")
	for {
		short := strings.TrimPrefix(strings.TrimPrefix(text, "lockmesh: "), "admin: ")
		if short == text {
			return text
		}
		text = short
	}
}

// lostTwice finds the loss of a lease as the client tells it, around the same loss as the node
// tells it.
var lostTwice = regexp.MustCompile(`the lease is lost: lease "(?:[^"\\]|\\.)*": (.*?): the lease is lost`)

// wrongField finds the field of lockmesh.Config in a line of the text of an error.
var wrongField = regexp.MustCompile(`the configuration is wrong: (\w+): `)

// optionTTL is the option of the library that --ttl sets, in the library's errors.
var optionTTL = regexp.MustCompile(`WithTTL\(([^)]*)\)`)

// refutes reports whether the node has refused a request that it understands, since the lease that
// the request names isn't held.
func refutes(err error) bool {
	var e *admin.Error
	return errors.As(err, &e) && e.Code == "request" && e.Status == http.StatusConflict
}

// nameSettings adds to each line about a field of lockmesh.Config the flag and the variable that
// set the field.
func nameSettings(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		field := wrongField.FindStringSubmatch(line)
		if field == nil {
			continue
		}
		if setting := settingOf(field[1]); setting != "" {
			lines[i] += " (" + setting + ")"
		}
	}
	return strings.Join(lines, "\n")
}

// settingOf returns the flag and the variable that set a field of lockmesh.Config; empty if none
// does.
func settingOf(field string) string {
	switch field {
	case "Secret":
		return "LOCKMESH_SECRET or LOCKMESH_SECRET_FILE has the secret, and lockmesh keygen makes one; Insecure is --insecure"
	case "Secrets":
		return "LOCKMESH_SECRET or LOCKMESH_SECRET_FILE has the secrets, a line each, and lockmesh keygen makes one"
	}
	for _, flags := range []reflect.Type{reflect.TypeFor[meshFlags](), reflect.TypeFor[nodeFlags]()} {
		if f, ok := flags.FieldByName(field); ok {
			variable := f.Tag.Get("env")
			name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, "LOCKMESH_"), "_", "-"))
			return "--" + name + " or " + variable
		}
	}
	return ""
}

// noAnswerAdvice is the advice about a node within reach, but without an answer.
const noAnswerAdvice = "its process may have ended; lockmesh status tells whether the node is back"

// heldAdvice is the advice where the answer has no state of a key: the node still holds leases when
// the wait of drain or stop is over, or no voter has told the state of a refused key.
const heldAdvice = "wait longer with -w TIME; lockmesh ls shows the holders"

// advices take the place of advice that names parts of HTTP requests.
var advices = map[string]string{
	"held":         "wait longer with -w TIME, or without -n and -w; lockmesh inspect shows the holders",
	"timeout":      "a longer --timeout waits longer; lockmesh status shows the voters",
	"canceled":     "try again",
	"request":      "lockmesh -h lists the flags",
	"unauthorized": "LOCKMESH_ADMIN_TOKEN or LOCKMESH_ADMIN_TOKEN_FILE must have the token of the node's admin handler",
	"no_quorum":    "lockmesh status shows the voters",
}

// waitTime is a duration such as 30s, or a number of seconds as for flock(1).
type waitTime time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (w *waitTime) UnmarshalText(text []byte) error {
	s := string(text)
	if s != "" && strings.Trim(strings.TrimPrefix(s, "-"), "0123456789.") == "" {
		s += "s"
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is no time such as 30s, 1m30s, or a number of seconds", text)
	}
	*w = waitTime(d)
	return nil
}
