package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
)

// sealPrefix begins the last line of meta.properties, a comment with the CRC-32C of all lines
// before it. Kafka ignores comments, and drops them when it writes the file.
const sealPrefix = "# crc32c: "

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errFlipped is returned by checkSeal, with the right content, if one bit had flipped.
var errFlipped = errors.New("a bit has flipped")

// seal returns the content with the seal as last line.
func seal(content []byte) []byte {
	if len(content) > 0 && content[len(content)-1] != '\n' {
		content = append(content, '\n')
	}
	return fmt.Appendf(bytes.Clone(content), "%s%08x\n", sealPrefix,
		crc32.Checksum(content, castagnoli))
}

// checkSeal compares the content with its seal. Content without a seal is accepted, because another
// program may have written it. If a flip of one bit explains the difference, checkSeal returns the
// content without the flip and errFlipped: no two contents of this length that differ in up to
// three bits have the same CRC.
func checkSeal(content []byte) ([]byte, error) {
	if !bytes.Contains(content, []byte("\n"+sealPrefix)) || matchesSeal(content) {
		return content, nil
	}
	for bit := range 8 * len(content) {
		fixed := bytes.Clone(content)
		fixed[bit/8] ^= 1 << (bit % 8)
		if matchesSeal(fixed) {
			return fixed, errFlipped
		}
	}
	return nil, fmt.Errorf("%w: the checksum in its last line does not match", ErrMalformed)
}

// matchesSeal reports whether the last line is the seal of the lines before it.
func matchesSeal(content []byte) bool {
	i := bytes.LastIndex(content, []byte("\n"+sealPrefix))
	return i >= 0 && bytes.Equal(seal(content[:i+1]), content)
}
