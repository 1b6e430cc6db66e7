package top

import (
	"context"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
)

// Options join a live view to a terminal and a node.
type Options struct {
	// Settings are the wishes of the user.
	Settings
	// Node answers.
	Node Node
	// In and Out are the terminal.
	In, Out *os.File
	// Patience is how long a look waits for the node's answer.
	Patience time.Duration
	// Describe tells a user about an error.
	Describe func(error) string
	// StopSelf stops this process, as Ctrl-Z does, and returns when the shell continues the
	// process. The terminal is as before meanwhile. StopSelf returns at once where processes can't
	// be stopped.
	StopSelf func()
	// Stops are the wishes of other processes to stop this process.
	Stops <-chan struct{}
}

// Run shows a live view until the user ends the view, and returns nil then, or until ctx ends. An
// error of the first look at the node is returned before the terminal changes; later errors are
// shown. The terminal is as before when Run returns.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	first, stop := context.WithTimeout(ctx, o.Patience)
	status, err := o.Node.Status(first)
	stop()
	if err != nil {
		return err
	}
	a := &asker{
		ctx: ctx, node: o.Node, patience: o.Patience, describe: o.Describe, stopSelf: o.StopSelf,
	}
	if o.Count {
		a.follow(&group, o.Prefix)
	}
	profile := colorprofile.NoTTY
	if o.Colors {
		profile = colorprofile.ANSI // as paint has; to detect more, Bubble Tea would start a process
	}
	p := tea.NewProgram(newModel(o.Settings, a, status, time.Now()),
		tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out),
		tea.WithColorProfile(profile), tea.WithoutSignalHandler())
	group.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-o.Stops:
				p.Send(stopped{})
			}
		}
	})
	_, err = p.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// stop returns the command to stop this process.
func (a *asker) stop() command {
	return tea.Exec(stopper(a.stopSelf), nil)
}
