package load

import (
	"errors"
	"os"
	"runtime/pprof"
)

// Profile is where this process spends its processor time, while it is being taken.
type Profile struct{ file *os.File }

// Start begins to take one into a file.
func (p *Profile) Start(path string) (err error) {
	if p.file != nil {
		return errors.New("a profile is being taken already")
	}
	if p.file, err = os.Create(path); err != nil {
		return err
	}
	return pprof.StartCPUProfile(p.file)
}

// Stop ends it.
func (p *Profile) Stop() error {
	if p.file == nil {
		return errors.New("no profile is being taken")
	}
	pprof.StopCPUProfile()
	err := p.file.Close()
	p.file = nil
	return err
}
