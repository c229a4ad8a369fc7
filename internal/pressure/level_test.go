package pressure

import (
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

// volume returns a volume of 1000 bytes of which a share in percent is used.
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
				level = thresholds.Next(level, volume(step.used), 10)
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

// TestLevelsAreOrdered: for random thresholds and measurements, a fuller volume never has a lower
// level, and a level that was left is entered again only at its threshold.
func TestLevelsAreOrdered(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 1))
	for range 10_000 {
		t1 := 5 + random.IntN(90)
		t2 := t1 + random.IntN(100-t1+1)
		thresholds := Thresholds{Warn: t1, Clean: t2, Reject: t2 + random.IntN(100-t2+1)}
		fuller := Volume{Total: 1 << 20, Free: random.Int64N(1 << 20)}
		emptier := fuller
		emptier.Free += random.Int64N(emptier.Total - emptier.Free + 1)
		current := Level(random.IntN(int(Reserve) + 1))
		reserve := thresholds.Reserve(fuller, random.Int64N(1<<16))
		high := thresholds.Next(current, fuller, reserve)
		low := thresholds.Next(current, emptier, reserve)
		if low > high {
			t.Fatalf("%+v from %s: level %s at %+v, %s at %+v", thresholds, current, low, emptier,
				high, fuller)
		}
		if again := thresholds.Next(high, fuller, reserve); again != high {
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
		level   Level
		used    float64
		reserve int64
		want    int64
	}{{None, 50, 40, 420}, {Clean, 90, 40, 20}, {Clean, 93, 40, 0}, {Reject, 93, 40, 30},
		{Reserve, 97, 40, 0}} {
		if got := Default().Slack(test.level, volume(test.used), test.reserve); got != test.want {
			t.Errorf("%+v: slack %d", test, got)
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
