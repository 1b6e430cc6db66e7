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

// A service that isn't installed is reported loudly, also among the results; without any other
// service the run ends with an error.
func TestWhatIsNotInstalledIsToldAmongTheResults(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	o, err := parse(strings.Fields("-only latency -services redis,redsync"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), o, &out); err == nil || !strings.Contains(err.Error(), "nothing to measure") {
		t.Errorf("without a service the error is %v", err)
	}
	if !strings.Contains(out.String(), "nothing is compared with Redis") {
		t.Errorf("that Redis is left out isn't told:\n%s", &out)
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
