package load

import (
	"errors"
	"os"
	"runtime/pprof"
)

// Profile is a CPU profile of this process, while the profile is being taken.
type Profile struct{ file *os.File }

// Start begins to write a profile into a file.
func (p *Profile) Start(path string) (err error) {
	if p.file != nil {
		return errors.New("a profile is being taken already")
	}
	if p.file, err = os.Create(path); err != nil {
		return err
	}
	return pprof.StartCPUProfile(p.file)
}

// Stop ends the profile.
func (p *Profile) Stop() error {
	if p.file == nil {
		return errors.New("no profile is being taken")
	}
	pprof.StopCPUProfile()
	err := p.file.Close()
	p.file = nil
	return err
}
