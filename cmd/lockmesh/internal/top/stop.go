package top

import "io"

// stopper stops this process. Bubble Tea gives the terminal back before the call of Run, and takes
// the terminal again after.
type stopper func()

// Run implements [tea.ExecCommand].
func (s stopper) Run() error {
	s()
	return nil
}

// SetStdin implements [tea.ExecCommand].
func (stopper) SetStdin(io.Reader) {}

// SetStdout implements [tea.ExecCommand].
func (stopper) SetStdout(io.Writer) {}

// SetStderr implements [tea.ExecCommand].
func (stopper) SetStderr(io.Writer) {}
