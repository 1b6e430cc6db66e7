package main

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	o, err := parse(strings.Fields("-only latency,embed -services limit,etcd -rounds 2 -for 1s -held 7"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !o.does(wLatency) || o.does(wHold) || !o.wants(nameEtcd) || o.wants(nameRedis) || o.rounds != 2 || o.length != time.Second || !slices.Equal(o.held, []int{7}) {
		t.Errorf("it was understood as %+v", o)
	}
	if o, err = parse(nil, io.Discard); err != nil || len(o.only) != len(workloads) || len(o.services) != len(serviceNames) || o.rounds < 5 {
		t.Errorf("nothing was understood as %+v, %v", o, err)
	}
}

func TestOptionsThatCantBe(t *testing.T) {
	for args, want := range map[string]string{
		"-only speed": wLatency, "-services olric": nameEtcd, "-rounds 0": "-rounds", "-held 5,x": "-held", "-kept 0": "-kept", "fast": "-h", "-profile": "-out",
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, and should say something of %s", args, err, want)
		}
	}
}
