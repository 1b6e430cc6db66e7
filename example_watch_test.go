package lockmesh_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/lockmesh/lockmesh"
)

// A watch reports the events of a key, without polling.
func ExampleMesh_Watch() {
	mesh := alone()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	watch, err := mesh.Watch(ctx, "job/5")
	if err != nil {
		log.Print(err)
		return
	}
	next := func() { fmt.Println((<-watch.Events()).Kind) }
	next() // no node holds the key so far
	lease, _ := mesh.Lock(ctx, "job/5")
	next()
	_ = lease.Unlock(ctx)
	next()
	cancel()
	for range watch.Events() {
	}
	fmt.Println(errors.Is(watch.Err(), context.Canceled))
	// Output:
	// synced
	// granted
	// released
	// true
}

// A page of all jobs shows first the present holders, then the changes.
func ExampleMesh_WatchPrefix() {
	mesh := alone()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lease, _ := mesh.Lock(ctx, "jobs/7", lockmesh.WithValue([]byte("resizing")))
	defer lease.Unlock(context.Background())
	watch, _ := mesh.WatchPrefix(ctx, "jobs/")
	holders := make(map[string]string)
	for e := range watch.Events() {
		switch e.Kind {
		case lockmesh.EventGap:
			clear(holders) // the present holders follow
		case lockmesh.EventGranted, lockmesh.EventChanged:
			holders[e.Key] = e.Node + " " + string(e.Value)
		case lockmesh.EventReleased, lockmesh.EventLost:
			delete(holders, e.Key)
		case lockmesh.EventSynced:
			fmt.Println(holders)
			return
		}
	}
	// Output: map[jobs/7:edge-1 resizing]
}

// One of many nodes leads, and the others know the leader's address.
func ExampleElection_Campaign() {
	ctx := context.Background()
	election := alone().Election("scheduler")
	if _, err := election.Leader(ctx); errors.Is(err, lockmesh.ErrNoLeader) {
		fmt.Println("no leader")
	}
	leadership, err := election.Campaign(ctx, []byte("10.0.0.7:80")) // blocks until this node leads
	if err != nil {
		log.Print(err)
		return
	}
	_ = leadership.Proclaim(ctx, []byte("10.0.0.7:443"))
	leader, _ := election.Leader(ctx)
	fmt.Println(leader.Node, string(leader.Value), leader.Token == leadership.Token())
	_ = leadership.Resign(ctx)
	// Output:
	// no leader
	// edge-1 10.0.0.7:443 true
}

// Clients follow the leader.
func ExampleElection_Observe() {
	election := alone().Election("primary")
	var leadership *lockmesh.Leadership
	for leader, err := range election.Observe(context.Background()) {
		switch {
		case err != nil:
			log.Print(err)
		case leader.None && leadership == nil:
			fmt.Println("no leader yet")
			leadership, _ = election.Campaign(context.Background(), []byte("here"))
			continue
		case leader.None:
			fmt.Println("the leader has resigned")
		default:
			fmt.Println("the leader is", string(leader.Value))
			_ = leadership.Resign(context.Background())
			continue
		}
		break
	}
	// Output:
	// no leader yet
	// the leader is here
	// the leader has resigned
}

// The node is a candidate until ctx ends. Whenever the node leads, the function runs.
func ExampleMesh_Lead() {
	ctx, stop := context.WithCancel(context.Background()) // in a program: signal.NotifyContext
	turns := 0
	err := alone().Lead(ctx, "janitor", func(ctx context.Context) error {
		if turns++; turns == 2 {
			stop()
			return nil
		}
		return errors.New("the database was slow") // the error ends the turn, not the candidacy
	})
	fmt.Println(turns, "turns:", err)
	// Output:
	// 2 turns: lockmesh: lead "janitor": context canceled
}

// The function runs once, while this node leads; the next node leads after the function has
// returned.
func ExampleMesh_LeadOnce() {
	err := alone().LeadOnce(context.Background(), "janitor", func(ctx context.Context) error {
		fmt.Println("leading:", ctx.Err() == nil)
		return nil
	})
	fmt.Println(err)
	// Output:
	// leading: true
	// <nil>
}

// A deploy goes on once three workers are ready.
func ExampleMesh_CountDownLatch() {
	ctx, mesh := context.Background(), alone()
	ready := mesh.CountDownLatch("deploy/42/ready", 3)
	for range 3 { // each worker, in its own process
		count, err := ready.CountDown(ctx)
		if err != nil {
			log.Print(err)
			return
		}
		defer count.TakeBack(ctx) // the count stands as long as the worker lives
	}
	if err := mesh.CountDownLatch("deploy/42/ready", 3).Await(ctx); err != nil {
		log.Print(err)
	}
	missing, _ := ready.Count(ctx)
	fmt.Println("missing:", missing)
	// Output: missing: 0
}

// Two workers go through each phase together.
func ExampleMesh_DoubleBarrier() {
	ctx, mesh := context.Background(), alone()
	done := make(chan error)
	for range 2 { // each worker, in its own process
		go func() {
			phase := mesh.DoubleBarrier("phase", 2)
			if err := phase.Enter(ctx); err != nil {
				done <- err
				return
			}
			// Both workers are here.
			done <- phase.Leave(ctx)
		}()
	}
	fmt.Println(<-done, <-done)
	// Output: <nil> <nil>
}
