package record

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
)

// franzCodecs maps this package's codecs to franz-go's codecs.
var franzCodecs = map[compress.Codec]kgo.CompressionCodec{
	compress.None: kgo.NoCompression(), compress.Gzip: kgo.GzipCompression(),
	compress.Snappy: kgo.SnappyCompression(),
	compress.LZ4:    kgo.Lz4Compression(), compress.Zstd: kgo.ZstdCompression(),
}

func TestRecordsReadsBatchesOfFranzGo(t *testing.T) {
	var payload []byte
	for i := range int32(500) {
		r := kmsg.Record{TimestampDelta64: int64(i) * 10, OffsetDelta: i,
			Key: fmt.Appendf(nil, "key-%d", i), Value: []byte("value")}
		if i%3 == 0 {
			r.Value = nil
		}
		r.Headers = []kmsg.Header{{Key: "h", Value: []byte{byte(i)}}, {Key: "null"}}
		// Length excludes the byte in which AppendTo encodes the unset length 0.
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		payload = r.AppendTo(payload)
	}
	for codec, franzCodec := range franzCodecs {
		compressor, err := kgo.DefaultCompressor(franzCodec)
		if err != nil {
			t.Fatal(err)
		}
		packed := payload
		if codec != compress.None {
			packed, _ = compressor.Compress(new(bytes.Buffer), payload)
		}
		raw := kmsg.RecordBatch{
			PartitionLeaderEpoch: -1, Magic: 2, Attributes: int16(codec), LastOffsetDelta: 499,
			FirstTimestamp: 1000,
			MaxTimestamp:   5990, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
			NumRecords: 500, Records: packed,
		}
		raw.Length = int32(len(raw.AppendTo(nil)) - 12)
		sum := crc32.Checksum(raw.AppendTo(nil)[21:], crc32.MakeTable(crc32.Castagnoli))
		raw.CRC = int32(sum)
		valid, err := Validate(raw.AppendTo(nil), Rules{KeepCodec: true, Compacted: true}, now)
		if err != nil {
			t.Fatal(codec, err)
		}
		all := collect(t, valid.Batch)
		if len(all) != 500 ||
			text(all[499]) != "499@5990 \"key-499\"=\"value\" \"h\":\"\\xf3\" \"null\":null" ||
			all[0].Value != nil {
			t.Errorf("%s: %d records, the last %s", codec, len(all), text(all[len(all)-1]))
		}
	}
}

func TestFranzGoReadsOurBatches(t *testing.T) {
	var records []Record
	for i := range 3000 {
		r := keyed(fmt.Sprintf("key-%d", i), fmt.Sprintf("some value, %d times", i), int64(5000-i))
		r.Headers = []Header{{Key: []byte("h"), Value: []byte("v")}}
		records = append(records, r)
	}
	for codec := range franzCodecs {
		id := Identity{BaseOffset: 900, LastOffsetDelta: 2999, ProducerID: 7,
			DeleteHorizonMs: 10_000}
		ours := buildBatch(t, codec, id, records...)
		var raw kmsg.RecordBatch
		if err := raw.ReadFrom(ours); err != nil {
			t.Fatal(codec, err)
		}
		payload := raw.Records
		if codec != compress.None {
			var err error
			if payload, err = kgo.DefaultDecompressor().Decompress(raw.Records,
				kgo.CompressionCodecType(codec)); err != nil {
				t.Fatal(codec, err)
			}
		}
		var got []string
		for range raw.NumRecords {
			var r kmsg.Record
			length, size := varint32(payload)
			if err := r.ReadFrom(payload[:size+int(length)]); err != nil {
				t.Fatal(codec, err)
			}
			payload = payload[size+int(length):]
			got = append(got, fmt.Sprintf("%d@%d %q=%q %q:%q", raw.FirstOffset+int64(r.OffsetDelta),
				raw.FirstTimestamp+r.TimestampDelta64, r.Key, r.Value, r.Headers[0].Key,
				r.Headers[0].Value))
		}
		if want := texts(records); !slices.Equal(got, want) {
			t.Errorf("%s: franz-go reads %v..., want %v...", codec, got[0], want[0])
		}
	}
}
