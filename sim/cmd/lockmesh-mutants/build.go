package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A plant is the broken core, compiled.
type plant struct {
	root    string // of the repository
	dir     string // temporary
	overlay string // passed to the go command
	sites   []site // a mutant's number is its index
	dead    []bool // mutants that don't compile
}

// write writes the files with the switches, and the overlay to replace the real files.
func (p *plant) write() (rewritten map[string]string, err error) {
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	put := func(name, text string) error {
		at := filepath.Join(p.dir, strings.ReplaceAll(name, "/", "--"))
		overlay.Replace[filepath.Join(p.root, filepath.FromSlash(name))] = at
		return os.WriteFile(at, []byte(text), 0o600)
	}
	numbers := make(map[string][]int)
	for i, s := range p.sites {
		if !p.dead[i] {
			numbers[s.file] = append(numbers[s.file], i)
		}
	}
	rewritten = make(map[string]string)
	for file, own := range numbers {
		text, err := os.ReadFile(filepath.Join(p.root, filepath.FromSlash(file)))
		if err != nil {
			return nil, err
		}
		sites := make([]site, len(own))
		for i, n := range own {
			sites[i] = p.sites[n]
		}
		rewritten[file] = rewrite(string(text), sites, own)
		if err := put(file, rewritten[file]); err != nil {
			return nil, err
		}
	}
	for _, pkg := range packages {
		name := pkg[strings.LastIndex(pkg, "/")+1:]
		if err := put(pkg+"/zz_mutants.go", fmt.Sprintf(switches, name)); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return nil, err
	}
	return rewritten, os.WriteFile(p.overlay, text, 0o600)
}

var (
	complaint = regexp.MustCompile(`(?m)^(?:\./)?(\S+\.go):(\d+):\d+: `)
	numbered  = regexp.MustCompile(`mut(?:Pick)?\((\d+)`)
)

// compile builds the core with all switches, and drops the mutants that don't compile. Any other
// error is returned.
func (p *plant) compile(ctx context.Context) error {
	for {
		rewritten, err := p.write()
		if err != nil {
			return err
		}
		args := []string{"build", "-gcflags=-e", "-overlay", p.overlay}
		for _, pkg := range packages {
			args = append(args, "./"+pkg)
		}
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = p.root
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		given := 0
		for _, c := range complaint.FindAllStringSubmatch(string(out), -1) {
			line, err := strconv.Atoi(c[2])
			if err != nil {
				continue
			}
			lines := strings.Split(rewritten[filepath.ToSlash(c[1])], "\n")
			if line > len(lines) {
				continue
			}
			for _, m := range numbered.FindAllStringSubmatch(lines[line-1], -1) {
				if n, err := strconv.Atoi(m[1]); err == nil && !p.dead[n] {
					p.dead[n] = true
					given++
				}
			}
		}
		if given == 0 {
			return errors.Join(fmt.Errorf("the core with mutants doesn't build:\n%s", out), ctx.Err())
		}
	}
}

// A suite is a test binary, with its arguments.
type suite struct {
	name   string
	pkg    string   // the tests' package
	args   []string // of the binary
	env    []string
	guards []string // packages with mutants noticeable by the suite; all, if empty
	bin    string
}

// suites are tried in this order: a mutant noticed by one suite isn't put to the next.
func suites() []*suite {
	quick := []string{"-test.failfast"}
	core := []string{"lease", "quorum", "internal/electorate", "internal/node"}
	var all []*suite
	for _, pkg := range packages {
		guards := []string{pkg}
		if pkg == "internal/node" {
			guards = core // its tests run the other three together
		}
		all = append(all, &suite{
			name: "unit tests", pkg: pkg, guards: guards,
			args: slices.Concat(quick, []string{
				"-test.skip", "Anything|LacksAVoter|KeysUsedOnce|Allocate|MemoryOf|CrowdThat|GivesItsRoomBack",
			}),
		})
	}
	return append(all,
		&suite{
			name: "any order", pkg: "internal/node", guards: core,
			args: slices.Concat(quick, []string{"-test.run", "Anything", "-wild.seeds", "24"}),
		},
		&suite{
			name: "fixed worlds", pkg: "sim", guards: core,
			args: slices.Concat(quick, []string{"-test.run", "^TestSwarm(Coalescing)?$"}),
			env:  []string{"LOCKMESH_SIM_SEEDS=12", "LOCKMESH_SIM_SECONDS=20"},
		},
		&suite{
			name: "worlds with elections", pkg: "sim", guards: core,
			args: slices.Concat(quick, []string{"-test.run", "^TestSwarmDynamic$"}),
			env:  []string{"LOCKMESH_SIM_SEEDS=8", "LOCKMESH_SIM_SECONDS=20"},
		},
		&suite{
			name: "worlds born by count", pkg: "sim", guards: core,
			args: slices.Concat(quick, []string{"-test.run", "^TestSwarmCounted$"}),
			env:  []string{"LOCKMESH_SIM_SEEDS=8", "LOCKMESH_SIM_SECONDS=30"},
		},
		&suite{
			name: "scenarios", pkg: "sim", guards: core,
			args: slices.Concat(quick, []string{
				"-test.skip", "Swarm|Mutant|Shrink|Picture|Replay|Page|Judge|" +
					"TwentyChanges|HarmedAtAnyStep", // these take as long as all the others
			}),
		},
	)
}

// binaries compiles the test binaries.
func (p *plant) binaries(ctx context.Context, suites []*suite) error {
	made := make(map[string]string)
	for _, s := range suites {
		if made[s.pkg] == "" {
			made[s.pkg] = filepath.Join(p.dir, strings.ReplaceAll(s.pkg, "/", "--")+".test")
			cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", p.overlay,
				"-o", made[s.pkg], "./"+s.pkg)
			cmd.Dir = p.root
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("the tests of %s don't build: %w\n%s", s.pkg, err, out)
			}
		}
		s.bin = made[s.pkg]
	}
	return nil
}
