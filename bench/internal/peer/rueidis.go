package peer

import (
	"context"
	"fmt"
	"time"

	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/redis/rueidis"
)

// rueidisPool lets redsync use rueidis, a client that sends the commands of all callers together
// over a single connection.
type rueidisPool struct{ client rueidis.Client }

func (p rueidisPool) Get(ctx context.Context) (redsyncredis.Conn, error) {
	return rueidisConn{p.client, ctx}, nil
}

type rueidisConn struct {
	client rueidis.Client
	ctx    context.Context
}

func (c rueidisConn) Get(name string) (string, error) {
	v, err := c.client.Do(c.ctx, c.client.B().Get().Key(name).Build()).ToString()
	return v, unlessNil(err)
}

func (c rueidisConn) Set(name, value string) (bool, error) {
	err := c.client.Do(c.ctx, c.client.B().Set().Key(name).Value(value).Build()).Error()
	return err == nil, err
}

func (c rueidisConn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	err := c.client.Do(c.ctx, c.client.B().Set().Key(name).Value(value).Nx().PxMilliseconds(expiry.Milliseconds()).Build()).Error()
	return err == nil, unlessNil(err)
}

func (c rueidisConn) PTTL(name string) (time.Duration, error) {
	ms, err := c.client.Do(c.ctx, c.client.B().Pttl().Key(name).Build()).AsInt64()
	return time.Duration(ms) * time.Millisecond, err
}

func (c rueidisConn) Eval(script *redsyncredis.Script, keysAndArgs ...any) (any, error) {
	words := make([]string, len(keysAndArgs))
	for i, w := range keysAndArgs {
		words[i] = text(w)
	}
	keys, args := words[:script.KeyCount], words[script.KeyCount:]
	v, err := c.client.Do(c.ctx, c.client.B().Evalsha().Sha1(script.Hash).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()).ToAny()
	if e, ok := rueidis.IsRedisErr(err); ok && e.IsNoScript() {
		v, err = c.client.Do(c.ctx, c.client.B().Eval().Script(script.Src).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()).ToAny()
	}
	return v, unlessNil(err)
}

func (c rueidisConn) ScriptLoad(script *redsyncredis.Script) error {
	hash, err := c.client.Do(c.ctx, c.client.B().ScriptLoad().Script(script.Src).Build()).ToString()
	if err == nil {
		script.Hash = hash
	}
	return err
}

func (c rueidisConn) Close() error { return nil }

func unlessNil(err error) error {
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}

// text converts a script's argument, as given by redsync: strings and whole numbers.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return fmt.Sprint(v)
}
