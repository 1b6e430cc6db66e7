package main

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/lockmesh/lockmesh/admin"
)

//go:embed completions
var completions embed.FS

// completionVerb prints a script for a shell.
type completionVerb struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Help implements [kong.HelpProvider].
func (*completionVerb) Help() string {
	return `The script completes verbs, flags, their values, and keys as the node lists them.

Examples:
  source <(lockmesh completion bash)                                    in ~/.bashrc
  lockmesh completion zsh > "${fpath[1]}/_lockmesh"
  lockmesh completion fish > ~/.config/fish/completions/lockmesh.fish`
}

// Run runs the verb.
func (v *completionVerb) Run(g *globals) error {
	script, err := completions.ReadFile("completions/lockmesh." + v.Shell)
	if err != nil {
		return err
	}
	_, err = g.out.Write(script)
	return err
}

// completeVerb prints the candidates for a word of a command line, a candidate a line. The scripts
// call completeVerb.
type completeVerb struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"The words after lockmesh, the unfinished one last."`
}

const (
	// completeTime bounds the wait for a node: a shell's user waits, too.
	completeTime = 500 * time.Millisecond

	// completeKeys is how many keys are offered at most.
	completeKeys = 200
)

// Run runs the verb.
func (v *completeVerb) Run(ctx context.Context, g *globals, parser *kong.Kong) error {
	words := v.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	before, word := words[:len(words)-1], words[len(words)-1]
	if slices.Contains(before, "--") {
		return nil // a command, whose words the shell knows
	}
	for _, c := range candidates(ctx, g, parser.Model.Node, before, word) {
		if strings.HasPrefix(c, word) {
			if _, err := fmt.Fprintln(g.out, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// candidates returns the candidates for a word after other words.
func candidates(ctx context.Context, g *globals, root *kong.Node, before []string, word string) []string {
	node, flag, operands := root, (*kong.Flag)(nil), 0
	for _, w := range before {
		switch {
		case flag != nil:
			flag = nil // w is its value
		case strings.HasPrefix(w, "-"):
			if f := findFlag(node, w); f != nil && !f.IsBool() && !strings.Contains(w, "=") {
				flag = f
			}
		default:
			if child := findChild(node, w); child != nil {
				node = child
			} else {
				operands++
			}
		}
	}
	switch {
	case flag != nil && flag.PlaceHolder == "KEY":
		return keys(ctx, g, word)
	case flag != nil:
		return flag.EnumSlice()
	case strings.HasPrefix(word, "-"):
		return flagNames(node)
	case len(node.Children) > 0:
		return childNames(node)
	}
	i := min(operands, len(node.Positional)-1)
	if i < 0 {
		return nil
	}
	switch p := node.Positional[i]; {
	case len(p.EnumSlice()) > 0 && p.EnumSlice()[0] != "":
		return p.EnumSlice()
	case p.Name == "key" || p.Name == "prefix" || p.Name == "name":
		return keys(ctx, g, word)
	case p.Name == "voter":
		return members(ctx, g)
	}
	return nil
}

func findFlag(n *kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			if f.Name == name || f.Short != 0 && string(f.Short) == name {
				return f
			}
		}
	}
	return nil
}

func findChild(n *kong.Node, name string) *kong.Node {
	for _, c := range n.Children {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func flagNames(n *kong.Node) (names []string) {
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			names = append(names, "--"+f.Name)
		}
	}
	return names
}

func childNames(n *kong.Node) (names []string) {
	for _, c := range n.Children {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return names
}

// keys returns the keys in use with a prefix; none if no node answers soon.
func keys(ctx context.Context, g *globals, prefix string) (names []string) {
	if len(g.Join) > 0 {
		return nil // joining takes longer than a user waits
	}
	_ = g.act(ctx, completeTime, func(ctx context.Context, c *admin.Client) error {
		page, err := c.LocksPage(ctx, prefix, "", completeKeys)
		if err == nil {
			for _, l := range page.Locks {
				if !strings.HasPrefix(l.Key, "-") { // would be a flag
					names = append(names, safe(l.Key))
				}
			}
		}
		return err
	})
	return names
}

// members returns the nodes; none if no node answers soon.
func members(ctx context.Context, g *globals) (names []string) {
	if len(g.Join) > 0 {
		return nil
	}
	_ = g.act(ctx, completeTime, func(ctx context.Context, c *admin.Client) error {
		all, err := c.Members(ctx)
		for _, m := range all {
			names = append(names, safe(m.Name))
		}
		return err
	})
	return names
}
