package resp

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"slices"
	"strings"
	"time"
)

func doPing(x *call) reply {
	switch len(x.args) {
	case 0:
		return status("PONG")
	case 1:
		return bulk(x.args[0])
	}
	return failure("ERR wrong number of arguments for 'ping' command")
}

func doEcho(x *call) reply { return bulk(x.args[0]) }

func doQuit(x *call) reply {
	x.conn.quit = true
	return ok
}

func doReset(x *call) reply {
	c := x.conn
	c.name, c.proto = "", resp2
	if c.known {
		c.estrange()
	}
	return status("RESET")
}

func doAuth(x *call) reply {
	switch {
	case len(x.args) > 2:
		return errSyntax
	case x.s.password == nil && len(x.args) == 1:
		return failure("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	}
	user := "default"
	if len(x.args) == 2 {
		user = x.args[0]
	}
	return x.conn.authenticate(user, x.args[len(x.args)-1])
}

// authenticate lets a client in with the password. The comparison takes the same time for all
// passwords.
func (c *conn) authenticate(user, password string) reply {
	if c.s.password == nil {
		if user == "default" {
			return ok // the default user of a Redis without a password has any
		}
		return errWrongPass
	}
	digest := sha256.Sum256([]byte(password))
	if subtle.ConstantTimeCompare(digest[:], c.s.password[:]) != 1 || user != "default" {
		c.log("a wrong password")
		return errWrongPass
	}
	c.known = true
	return ok
}

// doHello answers HELLO: a client chooses a protocol.
func doHello(x *call) reply {
	args := x.args
	c := x.conn
	proto := c.proto
	if len(args) > 0 {
		switch args[0] {
		case "2":
			proto = resp2
		case "3":
			proto = resp3
		default:
			return failure("NOPROTO unsupported protocol version")
		}
		args = args[1:]
	}
	name, named := "", false
	for len(args) > 0 {
		switch option := strings.ToUpper(args[0]); {
		case option == "AUTH" && len(args) >= 3:
			if r := c.authenticate(args[1], args[2]); r != ok {
				return r
			}
			args = args[3:]
		case option == "SETNAME" && len(args) >= 2:
			name, named = args[1], true
			args = args[2:]
		default:
			return failf("ERR Syntax error in HELLO option '%s'", clip(args[0]))
		}
	}
	if !c.known {
		return failure("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> " +
			"option can be used to authenticate the client and select the RESP protocol version at the same time")
	}
	if named {
		if r := c.setName(name); r != ok {
			return r
		}
	}
	c.proto = proto
	return pairs{
		bulk("server"), bulk("lockmesh"), bulk("version"), bulk("0.0.0"), bulk("proto"), integer(proto), bulk("id"), integer(c.id),
		bulk("mode"), bulk("standalone"), bulk("role"), bulk("master"), bulk("modules"), array{},
	}
}

func doSelect(x *call) reply {
	if x.args[0] != "0" {
		return refused("there is one database, 0: begin the keys with a prefix instead")
	}
	return ok
}

func (c *conn) setName(name string) reply {
	if len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return failure("ERR Client names cannot contain spaces, newlines or special characters.")
	}
	c.name = name
	return ok
}

func doClient(x *call) reply {
	c := x.conn
	switch what := strings.ToUpper(x.args[0]); {
	case what == "SETNAME" && len(x.args) == 2:
		return c.setName(x.args[1])
	case what == "GETNAME" && len(x.args) == 1:
		if c.name == "" {
			return null{}
		}
		return bulk(c.name)
	case what == "ID" && len(x.args) == 1:
		return integer(c.id)
	case what == "SETINFO" && len(x.args) == 3: // the name and version of the client's library
		return ok
	}
	return failf("ERR unknown subcommand or wrong number of arguments for 'client|%s': SETNAME, GETNAME, SETINFO and ID are offered",
		clip(strings.ToLower(x.args[0])))
}

// doConfig answers CONFIG GET: there is nothing to configure for clients.
func doConfig(x *call) reply {
	if strings.EqualFold(x.args[0], "get") && len(x.args) > 1 {
		return pairs{}
	}
	return refused("a client can't configure the server")
}

// doInfo answers the truth. There is no redis_version, since this isn't Redis.
func doInfo(x *call) reply {
	sections := []struct{ name, text string }{
		{"server", fmt.Sprintf("# Server\r\nserver_name:lockmesh\r\nlockmesh_node:%s\r\nredis_mode:standalone\r\nuptime_in_seconds:%d\r\n",
			x.s.mesh.Name(), int(time.Since(x.s.begun).Seconds()))},
		{"clients", fmt.Sprintf("# Clients\r\nconnected_clients:%d\r\nmaxclients:%d\r\n", x.conn.set.count(), x.s.maxConns)},
		{"persistence", "# Persistence\r\nloading:0\r\n"},
		{"replication", "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"},
		{"keyspace", fmt.Sprintf("# Keyspace\r\ndb0:keys=%d\r\n", x.s.leases.count()+x.s.signals.count())},
	}
	var texts []string
	for _, s := range sections {
		all := len(x.args) == 0 || slices.ContainsFunc(x.args, func(a string) bool {
			return strings.EqualFold(a, s.name) || slices.Contains([]string{"all", "default", "everything"}, strings.ToLower(a))
		})
		if all {
			texts = append(texts, s.text)
		}
	}
	return bulk(strings.Join(texts, "\r\n"))
}

// doCommand describes the commands.
func doCommand(x *call) reply {
	names := make([]string, 0, len(commands))
	for name := range commands {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(x.args) > 0 {
		switch what := strings.ToLower(x.args[0]); {
		case what == "count" && len(x.args) == 1:
			return integer(len(commands))
		case what == "docs":
			return array{}
		case what == "info" && len(x.args) > 1:
			names = x.args[1:]
		case what != "info":
			return failf("ERR unknown subcommand '%s': INFO, COUNT and DOCS are offered", clip(what))
		}
	}
	all := make(array, 0, len(names))
	for _, name := range names {
		c := commands[strings.ToLower(name)]
		if c == nil {
			all = append(all, nullArray{})
			continue
		}
		flags := make(array, len(c.flags))
		for i, f := range c.flags {
			flags[i] = status(f)
		}
		step := integer(0)
		if c.first > 0 {
			step = 1
		}
		all = append(all, array{bulk(c.name), integer(c.arity), flags, integer(c.first), integer(c.last), step, array{}})
	}
	return all
}
