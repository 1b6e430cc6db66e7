package lockmesh

import (
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// expectDefaults fills in the defaults of a mesh that is born by count.
func (c *Config) expectDefaults() {
	if c.MinVoters == 0 {
		c.MinVoters = vote.MinVoters(c.Expect)
	}
	if c.Register != nil && c.RegisterTerm == 0 {
		c.RegisterTerm = DefaultRegisterTerm
	}
	if c.MaxVoters == 0 {
		c.MaxVoters = max(DefaultMaxVoters, min(c.Expect, MaxVoters))
	}
}

// checkExpect reports errors in the settings of a mesh that is born by count.
func (c Config) checkExpect(add func(field, problem string)) {
	c.checkRegister(add)
	if c.Expect == 0 {
		if c.MinVoters != 0 {
			add("MinVoters", "it applies to a mesh with Expect only, and Expect is not set; leave MinVoters out, or set Expect on every node")
		}
		return
	}
	const either = "a mesh has either a list of voters or a number of processes that found it; "
	switch {
	case c.Expect < 0:
		add("Expect", fmt.Sprintf("%d is negative; set the number of processes that found the mesh, usually 3", c.Expect))
	case c.Expect > MaxVoters:
		add("Expect", fmt.Sprintf("%d is more than %d, the largest electorate; 3 or 5 are enough, all other processes still take locks", c.Expect, MaxVoters))
	case c.MaxVoters < c.Expect:
		add("MaxVoters", fmt.Sprintf("%d is less than Expect, %d; raise MaxVoters, or lower Expect on every node", c.MaxVoters, c.Expect))
	case c.MinVoters < 0:
		add("MinVoters", fmt.Sprintf("%d is negative; zero means the default, %d", c.MinVoters, vote.MinVoters(c.Expect)))
	case c.MinVoters > c.Expect:
		add("MinVoters", fmt.Sprintf("%d is more than Expect, %d, with which the mesh begins; lower MinVoters, or raise Expect on every node", c.MinVoters, c.Expect))
	}
	if len(c.Voters) > 0 {
		add("Expect", either+"leave out Expect or Voters, on every node")
	}
	if c.StateDir != "" {
		add("Expect", "processes of a mesh with Expect have no StateDir: each start is another process; leave out Expect or StateDir, on every node")
	}
	if c.FromFixed {
		add("FromFixed", "a mesh with Expect can't be converted from fixed Voters; leave out Expect or FromFixed, on every node")
	}
	if c.Bootstrap {
		add("Bootstrap", "a mesh with Expect founds itself; leave Bootstrap out")
	}
	if c.Expect == 1 {
		if c.NonVoting {
			add("NonVoting", "a mesh of one process (Expect 1) has no other voter; leave NonVoting out")
		}
		if len(c.Peers) > 0 || c.Discover != nil {
			add("Peers", "a mesh of one process (Expect 1) takes in no other, so it has no peers; leave out Peers and Discover, or set Expect to 3 on every node")
		}
	}
}

// checkRegister reports errors in the settings of a register.
func (c Config) checkRegister(add func(field, problem string)) {
	switch {
	case c.Register == nil && c.RegisterTerm != 0:
		add("RegisterTerm", "it applies to a mesh with a Register only, and Register is not set; leave RegisterTerm out, or set Register on every node")
	case c.Register == nil:
	case c.Expect == 0:
		add("Register", "it applies to a mesh with Expect only, and Expect is not set; leave Register out, or set Expect on every node")
	case c.Expect == 1:
		add("Register", "a mesh of one process (Expect 1) takes in no other, and asks no register; leave Register out, or set Expect to 3 on every node")
	case c.RegisterTerm < c.MaxTTL:
		add("RegisterTerm", fmt.Sprintf("%v is less than MaxTTL, %v; raise it to some minutes, since voters don't act once they couldn't write the register for so long", c.RegisterTerm, c.MaxTTL))
	case c.RegisterTerm > LongestRegisterTerm:
		add("RegisterTerm", fmt.Sprintf("%v is more than %v; lower it, since no other mesh can be founded for so long after the loss of all processes", c.RegisterTerm, LongestRegisterTerm))
	}
}
