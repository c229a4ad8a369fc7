package topicconfig

import "testing"

// FuzzSet checks two properties of Set. If a value is accepted, its printed form is also accepted
// and results in equal settings. If a value is rejected, the settings do not change.
func FuzzSet(f *testing.F) {
	for _, p := range Default().Properties() {
		f.Add(p.Name, p.Value)
	}
	f.Add("min.cleanable.dirty.ratio", "1e-2")
	f.Add("min.cleanable.dirty.ratio", "0.3333333333333333")
	f.Add("retention.ms", "9223372036854775808")
	f.Add("max.compaction.lag.ms", " 1 ")
	f.Add("segment.ms", "60480480000000000") // above DurationMax; found by this test
	f.Fuzz(func(t *testing.T, name, value string) {
		s := Default()
		if s.Set(name, value) != nil {
			if s != Default() {
				t.Fatalf("%s=%q was rejected and changed the settings", name, value)
			}
			return
		}
		again := Default()
		printed := propertyOf(t, s, name).Value
		if err := again.Set(name, printed); err != nil || again != s {
			t.Errorf("%s=%q is printed as %q, which gives %+v, error %v", name, value, printed,
				again, err)
		}
	})
}
