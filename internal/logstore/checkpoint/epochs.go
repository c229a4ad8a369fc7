package checkpoint

import (
	"fmt"
	"strconv"

	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
)

// EncodeEpochs encodes leader-epoch-checkpoint, with one line per epoch: "<epoch> <start offset>".
func EncodeEpochs(cache leaderepoch.Cache) []byte {
	lines := make([]string, len(cache))
	for i, e := range cache {
		lines[i] = strconv.FormatInt(int64(e.Epoch), 10) + " " + strconv.FormatInt(e.Start, 10)
	}
	return encodeLines(lines)
}

// DecodeEpochs decodes leader-epoch-checkpoint. It fails with ErrMalformed unless epochs and start
// offsets ascend strictly, because lookups require that.
func DecodeEpochs(content []byte) (leaderepoch.Cache, error) {
	lines, err := decodeLines(content)
	if err != nil {
		return nil, err
	}
	var cache leaderepoch.Cache
	last := leaderepoch.Entry{Epoch: leaderepoch.None, Start: -1}
	for _, line := range lines {
		if len(line) != 2 {
			return nil, fmt.Errorf("%w: %d fields in a line, want 2", ErrMalformed, len(line))
		}
		epoch, err := strconv.ParseInt(line[0], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%w: epoch %q", ErrMalformed, line[0])
		}
		start, err := strconv.ParseInt(line[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: start offset %q", ErrMalformed, line[1])
		}
		if epoch <= int64(last.Epoch) || start <= last.Start {
			return nil, fmt.Errorf("%w: epoch %d at %d is out of order", ErrMalformed, epoch,
				start)
		}
		last = leaderepoch.Entry{Epoch: int32(epoch), Start: start}
		cache = append(cache, last)
	}
	return cache, nil
}
