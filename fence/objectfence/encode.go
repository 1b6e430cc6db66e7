package objectfence

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/lockmesh/lockmesh/fence"
)

// mark begins the line in front of a content that tells the token.
const mark = "lockmesh-token: "

// Encode returns the content with the token in a line in front of it. It is for storage whose versions are hashes of the content
// alone, as the ETags of S3 often are: a token in the metadata would change without a new version there, and a late write would pass.
func Encode(token uint64, data []byte) []byte {
	line := mark + strconv.FormatUint(token, 10) + "\n"
	return append([]byte(line), data...)
}

// Decode takes apart what Encode has made; data is part of stored. What has no such line was written without a token, and is returned
// whole with token 0. A line that begins like one and isn't one is an error.
func Decode(stored []byte) (token uint64, data []byte, err error) {
	rest, ok := bytes.CutPrefix(stored, []byte(mark))
	if !ok {
		return 0, stored, nil
	}
	number, data, ok := bytes.Cut(rest, []byte("\n"))
	if !ok {
		return 0, nil, fmt.Errorf("objectfence: the line with the token has no end")
	}
	token, err = parse(string(number))
	return token, data, err
}

// parse reads a token as it is stored.
func parse(s string) (uint64, error) {
	token, err := strconv.ParseUint(s, 10, 64)
	if err == nil {
		err = fence.Validate(token)
	}
	if err != nil {
		return 0, fmt.Errorf("objectfence: the stored token can't be read: %w", err)
	}
	return token, nil
}
