package objectfence

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/lockmesh/lockmesh/fence"
)

// tokenPrefix begins the line with the token, in front of the content.
const tokenPrefix = "lockmesh-token: "

// Encode returns the content with the token in a line in front. Use Encode for storage with
// versions that are hashes of the content alone, as the ETags of S3 often are: a token in the
// metadata would change without producing a new version, and a late write would succeed.
func Encode(token uint64, data []byte) []byte {
	line := tokenPrefix + strconv.FormatUint(token, 10) + "\n"
	return append([]byte(line), data...)
}

// Decode splits the result of Encode; data is part of stored. Content without the token's line was
// written without a token, and is returned whole with token 0. A malformed token line is an error.
func Decode(stored []byte) (token uint64, data []byte, err error) {
	rest, ok := bytes.CutPrefix(stored, []byte(tokenPrefix))
	if !ok {
		return 0, stored, nil
	}
	number, data, ok := bytes.Cut(rest, []byte("\n"))
	if !ok {
		return 0, nil, fmt.Errorf("objectfence: the line with the token has no end")
	}
	token, err = parseToken(string(number))
	return token, data, err
}

// parseToken parses a stored token.
func parseToken(s string) (uint64, error) {
	token, err := strconv.ParseUint(s, 10, 64)
	if err == nil {
		err = fence.Validate(token)
	}
	if err != nil {
		return 0, fmt.Errorf("objectfence: the stored token can't be read: %w", err)
	}
	return token, nil
}
