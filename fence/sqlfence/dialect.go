package sqlfence

import (
	"fmt"
	"strconv"
	"strings"
)

// Dialect describes the differences between SQL dialects that matter to this package. The zero
// value is no dialect; there are [SQLite], [PostgreSQL] and [MySQL].
type Dialect struct {
	name string
	// numberedParams says that placeholders are $1, $2 and so on; otherwise each is a question
	// mark.
	numberedParams bool
	// nameType is the type of the column of names. Names are compared byte by byte.
	nameType string
	// insert and unless are the beginning and end of an INSERT that adds nothing, without an error,
	// if the row exists.
	insert, onConflict string
	// lockClause makes a SELECT read the newest committed row instead of the transaction's
	// snapshot.
	lockClause string
}

// The dialects.
var (
	// SQLite is for SQLite 3.24 or later. Begin transactions with a write, as Do and Check do, or
	// with BEGIN IMMEDIATE; a transaction that begins with a read can't always become a writer.
	SQLite = Dialect{name: "SQLite", nameType: "TEXT", insert: "INSERT INTO", onConflict: " ON CONFLICT (resource) DO NOTHING"}

	// PostgreSQL is for PostgreSQL 9.5 or later, and compatible databases.
	PostgreSQL = Dialect{
		name: "PostgreSQL", numberedParams: true, nameType: `VARCHAR(512) COLLATE "C"`, insert: "INSERT INTO", onConflict: " ON CONFLICT (resource) DO NOTHING",
		lockClause: " FOR UPDATE",
	}

	// MySQL is for MySQL 5.7 or later and MariaDB, with InnoDB. When two holders write a resource
	// for the first time at once, the database may abort one transaction because of a deadlock; try
	// again then.
	MySQL = Dialect{name: "MySQL", nameType: "VARBINARY(512)", insert: "INSERT IGNORE INTO", lockClause: " FOR UPDATE"}
)

// String returns the dialect's name.
func (d Dialect) String() string { return d.name }

// statements are the SQL statements for one table.
type statements struct{ create, advance, add, newest string }

// statements composes the statements. Each advance changes the row even if the token is the same,
// as MySQL counts rows changed, not rows found.
func (d Dialect) statements(table string) statements {
	return statements{
		create: fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (resource %s NOT NULL PRIMARY KEY, token BIGINT NOT NULL, writes BIGINT NOT NULL)",
			table, d.nameType),
		advance: d.placeholders("UPDATE " + table + " SET token = ?, writes = writes + 1 WHERE resource = ? AND token <= ?"),
		add:     d.placeholders(d.insert + " " + table + " (resource, token, writes) VALUES (?, ?, 1)" + d.onConflict),
		newest:  d.placeholders("SELECT token FROM " + table + " WHERE resource = ?"),
	}
}

// placeholders writes the placeholders in the dialect's form.
func (d Dialect) placeholders(query string) string {
	if !d.numberedParams {
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
