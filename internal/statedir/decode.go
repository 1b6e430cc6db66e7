package statedir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// encode returns the file contents for a state.
func encode(st *vote.DiskState) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%d\n", magic, format)
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // names are for people
	e.SetIndent("", " ")
	if err := e.Encode(st); err != nil {
		return nil, err
	}
	return seal(b.Bytes()), nil
}

// seal appends the line with the checksum.
func seal(data []byte) []byte {
	return fmt.Appendf(data, "%s%08x\n", sumPrefix, crc32.Checksum(data, castagnoli))
}

// decode returns the state in a file. It accepts the exact output of encode and nothing else.
func decode(path string, data []byte) (vote.DiskState, error) {
	corrupt := func(text string, args ...any) (vote.DiskState, error) {
		return vote.DiskState{}, &Error{Path: path, Reason: ErrCorrupt, Text: fmt.Sprintf(text, args...), Advice: adviceCorrupt}
	}
	newer := func(text string, args ...any) (vote.DiskState, error) {
		return vote.DiskState{}, &Error{Path: path, Reason: ErrFormat, Text: fmt.Sprintf(text, args...), Advice: adviceFormat}
	}
	switch {
	case len(data) == 0:
		return corrupt("it is empty; expected %q in its first line", magic+strconv.Itoa(format))
	case len(data) > maxSize:
		return corrupt("it has more than %d bytes; expected no more", maxSize)
	}
	head, rest, _ := bytes.Cut(data, []byte("\n"))
	word, ok := strings.CutPrefix(string(head), magic)
	if !ok {
		return corrupt("it begins with %.40q; expected %q", head, magic+strconv.Itoa(format))
	}
	body, sum, ok := cutSum(data)
	if !ok {
		return corrupt("it ends with %.40q; expected a line %q and eight digits: it was cut short, or something was added", lastLine(data), sumPrefix)
	}
	if want := crc32.Checksum(body, castagnoli); sum != want {
		return corrupt("its checksum is %08x; expected %08x: a part of it has changed", sum, want)
	}
	if word != strconv.Itoa(format) {
		return newer("its format is %.40q; this version knows %d", word, format)
	}
	var st vote.DiskState
	if err := json.Unmarshal(rest[:len(rest)-(len(data)-len(body))], &st); err != nil {
		return corrupt("its checksum is right, but what it says can't be read (%.200v); expected the JSON of a state", err)
	}
	if again, err := encode(&st); err != nil || !bytes.Equal(again, data) {
		return newer("its checksum is right, but this version would write the same state " +
			"differently: another version wrote it, or it was edited by hand")
	}
	if problem := nonsense(&st); problem != "" {
		return corrupt("its checksum is right, but what it says makes no sense: %s", problem)
	}
	return st, nil
}

// cutSum splits a file into the bytes covered by the checksum, and the checksum in the last line.
func cutSum(data []byte) (body []byte, sum uint32, ok bool) {
	line := lastLine(data)
	digits, ok := strings.CutPrefix(string(line), sumPrefix)
	if !ok {
		return nil, 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(digits, "\n"), 16, 32)
	if err != nil || fmt.Sprintf("%08x\n", n) != digits { // too short, capitals, no line end
		return nil, 0, false
	}
	return data[:len(data)-len(line)], uint32(n), true
}

// lastLine returns the last line, including the line end if there is one.
func lastLine(data []byte) []byte {
	return data[bytes.LastIndexByte(bytes.TrimSuffix(data, []byte("\n")), '\n')+1:]
}
