package pressure

import (
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

// volume returns a volume of 1000 bytes with the given used share in percent.
func volume(used float64) Volume { return Volume{Total: 1000, Free: 1000 - int64(used*10)} }

func TestLevelFollowsTheUsedShare(t *testing.T) {
	thresholds := Default()
	for name, steps := range map[string][]struct {
		used float64
		want Level
	}{
		"rises at each threshold": {{79.9, None}, {80, Warn}, {84.9, Warn}, {85, Clean},
			{91.9, Clean}, {92, Reject}, {98, Reject}, {99, Reserve}, {100, Reserve}},
		"skips levels": {{10, None}, {93, Reject}, {10, None}},
		"falls below the hysteresis": {{92, Reject}, {90, Reject}, {89.9, Clean}, {83, Clean},
			{82.9, Warn}, {78, Warn}, {77.9, None}},
		"returns within the hysteresis": {{85, Clean}, {82.9, Warn}, {84.9, Warn}, {85, Clean}},
		"reserve ends":                  {{99, Reserve}, {98.1, Reserve}, {97.9, Reject}},
	} {
		t.Run(name, func(t *testing.T) {
			level := None
			for _, step := range steps {
				level = thresholds.Next(level, volume(step.used), 5)
				if level != step.want {
					t.Fatalf("at %v %%: level %s, want %s", step.used, level, step.want)
				}
			}
		})
	}
}

func TestVolumeOfUnknownSizeHasNoPressure(t *testing.T) {
	if level := Default().Next(Reserve, Volume{Total: -1, Free: -1}, 0); level != None {
		t.Errorf("level %s, want None", level)
	}
}

func TestReserveIsTwoSegmentsAndAtMostHalfOfTheRest(t *testing.T) {
	const gib = 1 << 30
	for _, test := range []struct {
		total, segment, want int64
	}{
		{1000 * gib, gib, 2 * gib},
		{10 * gib, gib, 10 * gib * 8 / 200},
		{10 * gib, 64 << 20, 128 << 20},
		{-1, gib, 0},
	} {
		got := Default().Reserve(Volume{Total: test.total, Free: test.total}, test.segment)
		if got != test.want {
			t.Errorf("volume of %d, segments of %d: reserve %d, want %d", test.total, test.segment,
				got, test.want)
		}
	}
}

// TestLevelsAreOrdered checks random thresholds and measurements. A fuller volume must never have a
// lower level, and a level that has ended must begin again only at its threshold.
func TestLevelsAreOrdered(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 1))
	for range 10_000 {
		t1 := 5 + random.IntN(90)
		t2 := t1 + random.IntN(100-t1+1)
		thresholds := Thresholds{Warn: t1, Clean: t2, Reject: t2 + random.IntN(100-t2+1)}
		total := int64(1) << (20 + random.IntN(30))
		fuller := Volume{Total: total, Free: random.Int64N(total)}
		emptier := fuller
		emptier.Free += random.Int64N(emptier.Total - emptier.Free + 1)
		current := Level(random.IntN(int(Reserve) + 1))
		thresholds.Exact = Level(random.IntN(int(Reserve)))
		segmentBytes := random.Int64N(1 << 16)
		reserve := thresholds.Reserve(fuller, segmentBytes)
		high := thresholds.Next(current, fuller, segmentBytes)
		low := thresholds.Next(current, emptier, segmentBytes)
		if low > high {
			t.Fatalf("%+v from %s: level %s at %+v, %s at %+v", thresholds, current, low, emptier,
				high, fuller)
		}
		if again := thresholds.Next(high, fuller, segmentBytes); again != high {
			t.Fatalf("%+v: level %s becomes %s without a change of %+v", thresholds, high, again,
				fuller)
		}
		if reserve > 0 && fuller.Free > reserve+fuller.Total*Hysteresis/200 && high == Reserve {
			t.Fatalf("%+v: level Reserve at %+v, reserve %d", thresholds, fuller, reserve)
		}
	}
}

func TestSlackIsTheSpaceUntilTheNextLevelThatRefusesRecords(t *testing.T) {
	for _, test := range []struct {
		level        Level
		used         float64
		segmentBytes int64
		want         int64
	}{{None, 50, 20, 420}, {Clean, 90, 20, 20}, {Clean, 93, 20, 0}, {Reject, 93, 20, 30},
		{Reserve, 97, 20, 0}} {
		got := Default().Slack(test.level, volume(test.used), test.segmentBytes)
		if got != test.want {
			t.Errorf("%+v: slack %d", test, got)
		}
	}
}

// TestLargeVolumeIsNotRefusedWithMuchFreeSpace checks large volumes, which may be shared with other
// programs. With default thresholds, a level begins only if little space is free too. This does not
// apply to thresholds that a user has set, nor to the levels below them.
func TestLargeVolumeIsNotRefusedWithMuchFreeSpace(t *testing.T) {
	const gib = 1 << 30
	reject := Thresholds{Warn: 80, Clean: 85, Reject: 92, Exact: Reject}
	warn := Thresholds{Warn: 80, Clean: 85, Reject: 92, Exact: Warn}
	for _, test := range []struct {
		thresholds       Thresholds
		current          Level
		total, free, seg int64
		want             Level
	}{
		{Default(), None, 1000 * gib, 70 * gib, gib, None},
		{Default(), Reject, 1000 * gib, 70 * gib, gib, None},
		{Default(), None, 1000 * gib, 50 * gib, gib, Warn},
		{Default(), None, 1000 * gib, 20 * gib, gib, Clean},
		{Default(), None, 1000 * gib, 5 * gib, gib, Reject},
		{Default(), Reject, 1000 * gib, 6 * gib, gib, Reject},
		{Default(), Reject, 1000 * gib, 7 * gib, gib, Clean},
		{Default(), None, 1000 * gib, 2 * gib, gib, Reserve},
		{Default(), Reserve, 1000 * gib, 3 * gib, gib, Reserve},
		{Default(), Reserve, 1000 * gib, 4 * gib, gib, Reject},
		{Default(), None, 1000 * gib, 8 * gib, 2 * gib, Reject},
		{Default(), None, 10 * gib, 8 * gib / 10, gib, Reject},
		{Default(), None, 10 * gib, 9 * gib / 10, gib, Clean},
		{reject, None, 1000 * gib, 70 * gib, gib, Reject},
		{reject, None, 1000 * gib, 140 * gib, gib, Clean},
		{warn, None, 1000 * gib, 70 * gib, gib, Warn},
	} {
		v := Volume{Total: test.total, Free: test.free}
		if got := test.thresholds.Next(test.current, v, test.seg); got != test.want {
			t.Errorf("%+v: level %s, want %s", test, got, test.want)
		}
	}
}

func TestLevelNamesAreParsed(t *testing.T) {
	for level := None; level <= Reserve; level++ {
		if got := ParseLevel(level.String()); got != level {
			t.Errorf("level %s is parsed as %s", level, got)
		}
	}
	if got := ParseLevel("Boiling"); got != None || Level(17).String() != "None" {
		t.Errorf("an unknown level is parsed as %s", got)
	}
}
