package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// queriesMax is how many queries for prefixes may wait at a voter per connection. A node sends a
// few at a time; queries beyond the limit aren't answered.
const queriesMax = 1024

// queries has the queries for prefixes that aren't answered yet. The queriers of all connections
// are either among the voter's tasks, or in paused.
type queries struct {
	queriers map[vote.Conn]*querier
	paused   []*querier // in order of the ends of their pauses: all pauses have the same length
}

// querier answers the prefix queries of a connection, one after the other.
type querier struct {
	conn    vote.Conn
	queries []query
	wakeAt  vote.Instant // the end of the pause; zero while the querier is among the tasks
	gone    bool         // the connection is closed
}

// any reports whether there are queries.
func (q *queries) any() bool { return len(q.queriers) > 0 }

// add adds a query of a connection. If the connection had no query, add returns a new querier,
// which the caller makes a task.
func (q *queries) add(conn vote.Conn, l query) (begins *querier) {
	k := q.queriers[conn]
	if k == nil {
		if q.queriers == nil {
			q.queriers = make(map[vote.Conn]*querier)
		}
		k = &querier{conn: conn}
		q.queriers[conn] = k
		begins = k
	}
	if len(k.queries) < queriesMax {
		k.queries = append(k.queries, l)
	}
	return begins
}

// finish forgets a querier that has answered all its queries.
func (q *queries) finish(k *querier) { delete(q.queriers, k.conn) }

// unlink forgets the queries of a closed connection.
func (q *queries) unlink(conn vote.Conn) {
	if k := q.queriers[conn]; k != nil {
		k.gone = true
		delete(q.queriers, conn)
	}
}

// pause has a querier wait until its wakeAt.
func (q *queries) pause(k *querier) { q.paused = append(q.paused, k) }

// wake returns the next querier whose pause is over; nil if there is none. The caller makes the
// querier a task.
func (q *queries) wake(now vote.Instant) *querier {
	if len(q.paused) == 0 || q.paused[0].wakeAt > now {
		return nil
	}
	k := q.paused[0]
	k.wakeAt = 0
	q.paused[0] = nil
	if q.paused = q.paused[1:]; len(q.paused) == 0 {
		q.paused = nil
	}
	return k
}

// wakeAt returns when the next pause is over; never if no querier pauses.
func (q *queries) wakeAt() vote.Instant {
	if len(q.paused) == 0 {
		return vote.Never
	}
	return q.paused[0].wakeAt
}
