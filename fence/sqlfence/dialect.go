package sqlfence

import (
	"fmt"
	"strconv"
	"strings"
)

// Dialect is in what SQL dialects differ, as far as this package is concerned. Its zero value is none; there are [SQLite],
// [PostgreSQL] and [MySQL].
type Dialect struct {
	name string
	// numbered says that placeholders are $1, $2 and so on; otherwise each is a question mark.
	numbered bool
	// resource is the type of the column of names. Names are compared byte by byte.
	resource string
	// insert and unless are what an INSERT begins and ends with so that it adds nothing, without an error, if the row is there.
	insert, unless string
	// lock is what makes a SELECT read what was committed last, not what the transaction saw first.
	lock string
}

// The dialects.
var (
	// SQLite is for SQLite 3.24 or later. Begin transactions with a write, as Do and Check do, or with BEGIN IMMEDIATE; one that begins
	// with a read can't always become a writer.
	SQLite = Dialect{name: "SQLite", resource: "TEXT", insert: "INSERT INTO", unless: " ON CONFLICT (resource) DO NOTHING"}

	// PostgreSQL is for PostgreSQL 9.5 or later, and what understands the same.
	PostgreSQL = Dialect{
		name: "PostgreSQL", numbered: true, resource: `VARCHAR(512) COLLATE "C"`, insert: "INSERT INTO", unless: " ON CONFLICT (resource) DO NOTHING",
		lock: " FOR UPDATE",
	}

	// MySQL is for MySQL 5.7 or later and MariaDB, with InnoDB. When two holders write a resource for the first time at once, the
	// database may end one of them for a deadlock; try again then.
	MySQL = Dialect{name: "MySQL", resource: "VARBINARY(512)", insert: "INSERT IGNORE INTO", lock: " FOR UPDATE"}
)

// String returns the dialect's name.
func (d Dialect) String() string { return d.name }

// statements are the texts for one table.
type statements struct{ create, advance, add, newest string }

// statements makes the texts. Each advance changes the row even if the token is the same, as MySQL counts rows that changed, not those
// that were found.
func (d Dialect) statements(table string) statements {
	return statements{
		create: fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (resource %s NOT NULL PRIMARY KEY, token BIGINT NOT NULL, writes BIGINT NOT NULL)",
			table, d.resource),
		advance: d.placed("UPDATE " + table + " SET token = ?, writes = writes + 1 WHERE resource = ? AND token <= ?"),
		add:     d.placed(d.insert + " " + table + " (resource, token, writes) VALUES (?, ?, 1)" + d.unless),
		newest:  d.placed("SELECT token FROM " + table + " WHERE resource = ?"),
	}
}

// placed writes the placeholders as the dialect wants them.
func (d Dialect) placed(query string) string {
	if !d.numbered {
		return query
	}
	parts := strings.Split(query, "?")
	var b strings.Builder
	b.WriteString(parts[0])
	for i, part := range parts[1:] {
		b.WriteString("$" + strconv.Itoa(i+1) + part)
	}
	return b.String()
}
