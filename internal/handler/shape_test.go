package handler

import (
	"bytes"
	"context"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/handler/admin"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/handler/data"
	"heartwood.dev/heartwood/internal/handler/groups"
	"heartwood.dev/heartwood/internal/handler/transactions"
	"heartwood.dev/heartwood/internal/wire"
)

// shapes contains the shape of each API that kmsg decodes.
var shapes = map[int16]api.Shape{
	api.KeyFetch: data.FetchShape, api.KeyListOffsets: data.ListOffsetsShape,
	api.KeyMetadata:        admin.MetadataShape,
	api.KeyAPIVersions:     apiVersionsShape,
	api.KeyFindCoordinator: groups.FindCoordinatorShape, api.KeyCreateTopics: admin.CreateTopicsShape,
	api.KeyDeleteTopics:    admin.DeleteTopicsShape,
	api.KeyInitProducerID:  transactions.InitProducerIDShape,
	api.KeyDescribeConfigs: admin.DescribeConfigsShape,
	api.KeyDescribeCluster: admin.DescribeClusterShape,
	api.KeyOffsetForEpoch:  data.OffsetForEpochShape,
	api.KeyOffsetCommit:    groups.OffsetCommitShape, api.KeyOffsetFetch: groups.OffsetFetchShape,
	api.KeyJoinGroup: groups.JoinGroupShape, api.KeyHeartbeat: groups.HeartbeatShape,
	api.KeyLeaveGroup: groups.LeaveGroupShape, api.KeySyncGroup: groups.SyncGroupShape,
	api.KeyDescribeGroups: groups.DescribeGroupsShape, api.KeyListGroups: groups.ListGroupsShape,
	api.KeyDeleteGroups: groups.DeleteGroupsShape, api.KeyOffsetDelete: groups.OffsetDeleteShape,
	api.KeyDeleteRecords: data.DeleteRecordsShape, api.KeyAlterConfigs: admin.AlterConfigsShape,
	api.KeyDescribeLogDirs:         data.DescribeLogDirsShape,
	api.KeyCreatePartitions:        admin.CreatePartitionsShape,
	api.KeyElectLeaders:            admin.ElectLeadersShape,
	api.KeyIncrementalAlterConfigs: admin.IncrementalAlterConfigsShape,
	api.KeyAlterReassignments:      admin.AlterReassignmentsShape,
	api.KeyListReassignments:       admin.ListReassignmentsShape,
	api.KeyDescribePartitions:      admin.DescribePartitionsShape,
	api.KeyListConfigResources:     admin.ListConfigResourcesShape,
	api.KeyConsumerHeartbeat:       groups.ConsumerHeartbeatShape,
	api.KeyConsumerDescribe:        groups.ConsumerDescribeShape,
	api.KeyDescribeACLs:            admin.DescribeACLsShape,
	api.KeyDescribeSCRAM:           admin.DescribeSCRAMShape,
	api.KeyCreateACLs:              admin.CreateACLsShape, api.KeyDeleteACLs: admin.DeleteACLsShape,
	api.KeyAlterReplicaLogDirs: data.AlterLogDirsShape, api.KeyUpdateFeatures: updateFeaturesShape,
	24: transactions.AddPartitionsToTxnShape, 27: transactions.WriteTxnMarkersShape,
	28: transactions.TxnOffsetCommitShape,
	49: admin.AlterClientQuotasShape, 51: admin.AlterSCRAMShape, 61: data.DescribeProducersShape,
	65: transactions.DescribeTransactionsShape, 77: shareGroupDescribeShape,
	89: streamsGroupDescribeShape,
	90: describeShareOffsetsShape,
}

// ignoresBody contains the APIs whose bodies are not decoded (refuse). TestRefusedAPIs checks that
// their responses do not depend on the body.
var ignoresBody = map[int16]bool{17: true, 25: true, 26: true, 36: true,
	api.KeyCreateToken: true, api.KeyRenewToken: true, api.KeyExpireToken: true,
	api.KeyDescribeToken: true,

	48: true, 50: true, 55: true, 64: true, 66: true, 71: true, 72: true, 76: true, 78: true,
	79: true, 80: true, 81: true, 88: true, 91: true, 92: true}

// fill sets every field in a request to a random value, so that no field is omitted when the
// request is encoded.
func fill(random *rand.Rand, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if random.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(random, v.Elem(), depth)
		}
	case reflect.Struct:
		if tags, ok := v.Addr().Interface().(*kmsg.Tags); ok {
			for range random.IntN(3) {
				tags.Set(random.Uint32N(1000)+100, make([]byte, random.IntN(200)))
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Version" {
				fill(random, v.Field(i), depth)
			}
		}
	case reflect.Slice:
		n := random.IntN(4)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(random, v.Index(i), depth+1)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(random, v.Index(i), depth)
		}
	case reflect.String:
		v.SetString(string(bytes.Repeat([]byte("s"), random.IntN(300))))
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	case reflect.Float64:
		v.SetFloat(random.Float64())
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(random.Uint64N(256))
	default:
		v.SetInt(int64(int8(random.Uint32())))
	}
}

// TestShapesAgreeWithKmsg checks that the shapes match bodies encoded by kmsg exactly, and that
// every truncated body is rejected.
func TestShapesAgreeWithKmsg(t *testing.T) {
	const seed = 11
	random := rand.New(rand.NewPCG(seed, 0))
	for _, row := range slices.Concat(table, refused) {
		if row.key == api.KeyProduce || ignoresBody[row.key] {
			continue
		}
		for version := row.min; version <= row.max; version++ {
			for range 50 {
				request := kmsg.RequestForKey(row.key)
				fill(random, reflect.ValueOf(request).Elem(), 0)
				request.SetVersion(version)
				body := request.AppendTo(nil)
				s := shapes[row.key]
				w := api.Walk{Reader: kbin.Reader{Src: body}, Version: version,
					Flexible: row.isFlexible(version)}
				w.Structure(s)
				if !w.Ok() || len(w.Src) > 0 {
					t.Fatalf("%s version %d: walked %v, %d of %d bytes left (seed %d)", row.name,
						version, w.Ok(), len(w.Src), len(body), seed)
				}
				if len(body) > 0 &&
					s.Check(version, row.isFlexible(version),
						body[:random.IntN(len(body))]) == nil {
					t.Fatalf("%s version %d: a truncated body is accepted (seed %d)", row.name,
						version,
						seed)
				}
			}
		}
	}
}

// TestShapesNameByteFields checks that HasBlobs returns true for each API whose kmsg request has
// byte fields. The frames of other APIs are released after decoding, although byte fields would
// still alias them.
func TestShapesNameByteFields(t *testing.T) {
	for _, row := range slices.Concat(table, refused) {
		if row.key == api.KeyProduce || ignoresBody[row.key] {
			continue
		}
		if kind := reflect.TypeOf(kmsg.RequestForKey(row.key)).Elem(); hasBytes(kind) &&
			!shapes[row.key].HasBlobs() {
			t.Errorf("%s has byte fields that its shape does not name", row.name)
		}
	}
}

func hasBytes(kind reflect.Type) bool {
	switch kind.Kind() {
	case reflect.Slice, reflect.Pointer:
		return kind.Elem().Kind() == reflect.Uint8 || hasBytes(kind.Elem())
	case reflect.Struct:
		if kind == reflect.TypeFor[kmsg.Tags]() {
			return false // tags do not matter
		}
		for i := range kind.NumField() {
			if hasBytes(kind.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// tagBomb is a tag section with the count 2^32-1 and no tags.
var tagBomb = []byte{0xff, 0xff, 0xff, 0xff, 0x0f}

// bombs returns small bodies for which kmsg would run for a long time, or allocate far more memory
// than their size.
func bombs() map[string]wire.Request {
	long := bytes.Repeat([]byte{1}, 1<<20)
	lengthOf := func(n int32) []byte { return append(kbin.AppendInt32(nil, n), long[4:]...) }
	fetchHead := make([]byte, 25)
	return map[string]wire.Request{
		"array of Metadata": {Key: api.KeyMetadata, Version: 7, Body: lengthOf(1<<20 - 100)},
		"array of Fetch": {Key: api.KeyFetch, Version: 4,
			Body: append(make([]byte, 17), lengthOf(1<<20-100)...)},
		"array of Produce": {Key: api.KeyProduce, Version: 7,
			Body: append([]byte{0xff, 0xff, 0, 1, 0, 0, 0, 0}, lengthOf(1<<20-100)...)},
		"array of CreateTopics": {Key: api.KeyCreateTopics, Version: 2, Body: lengthOf(1<<20 - 100)},
		"many small topics": {Key: api.KeyMetadata, Version: 7,
			Body: append(kbin.AppendInt32(nil, 500_000), make([]byte, 1<<20-4)...)},
		"tags of Metadata": {Key: api.KeyMetadata, Version: 9,
			Body: append([]byte{0, 0, 0, 0}, tagBomb...)},
		"tags of a topic": {Key: api.KeyMetadata, Version: 9,
			Body: append([]byte{2, 2, 'a'}, tagBomb...)},
		"tags of Produce": {Key: api.KeyProduce, Version: 9,
			Body: append([]byte{0, 0, 1, 0, 0, 0, 0, 1}, tagBomb...)},
		"tags of DescribeConfig": {Key: api.KeyDescribeConfigs, Version: 4,
			Body: append([]byte{0, 0, 0}, tagBomb...)},
		"tags in a tag of Fetch": {Key: api.KeyFetch, Version: 12, Body: slicesOf(
			fetchHead, []byte{0, 0, 1}, // no topics, no forgotten topics, no rack
			// one tag, the replica state, which itself contains a tag section
			[]byte{1, 1, 17}, make([]byte, 12), tagBomb,
		)},
	}
}

func slicesOf(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestBombsAreRejectedAtLittleCost(t *testing.T) {
	b := newBroker(t)
	for name, req := range bombs() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := b.Handle(t.Context(), &req)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
			t.Errorf("%s: got %d bytes allocated, want at most 8 MiB", name, grown)
		}
	}
}

// FuzzHandle checks that Handle returns a response or an error for any body, without a panic, a
// hang or unlimited memory use.
func FuzzHandle(f *testing.F) {
	b := newBroker(f)
	b.topic("tickets", nil)
	for _, row := range table {
		for version := row.min; version <= row.max; version++ {
			request := kmsg.RequestForKey(row.key)
			request.SetVersion(version)
			f.Add(row.key, version, request.AppendTo(nil))
		}
	}
	produce, fetch := produceRequestFor("tickets", -1, batch(f, compress.None, "a")),
		fetchRequestFor("tickets", 0)
	for _, request := range []kmsg.Request{produce, fetch} {
		request.SetVersion(9)
		f.Add(request.Key(), request.GetVersion(), request.AppendTo(nil))
	}
	for _, bomb := range bombs() {
		f.Add(bomb.Key, bomb.Version, bomb.Body)
	}
	// With a canceled context, requests do not wait.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		if len(body) > b.FrameMax(key) {
			return
		}
		reply, err := b.Handle(ctx, &wire.Request{Key: key, Version: version, Body: body})
		if err == nil {
			replyBytes(t, reply)
		}
	})
}
