package metadata

import (
	"reflect"
	"testing"
)

// TestPartitionEqualComparesEveryField checks for each field that a partition in which it is set
// does not equal a partition in which it is not set. Only the partition epoch is not compared.
func TestPartitionEqualComparesEveryField(t *testing.T) {
	fields := reflect.TypeFor[Partition]()
	for i := range fields.NumField() {
		if fields.Field(i).Name == "PartitionEpoch" {
			if !(&Partition{PartitionEpoch: 1}).Equal(&Partition{}) {
				t.Error("the partition epoch is compared")
			}
			continue
		}
		var a, b Partition
		field := reflect.ValueOf(&a).Elem().Field(i)
		switch field.Kind() {
		case reflect.Int32:
			field.SetInt(1)
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		default:
			t.Fatalf("field %s has kind %s", fields.Field(i).Name, field.Kind())
		}
		if a.Equal(&b) || b.Equal(&a) {
			t.Errorf("field %s is not compared", fields.Field(i).Name)
		}
		if copied := a; !copied.Equal(&a) {
			t.Errorf("field %s: a copy is not equal", fields.Field(i).Name)
		}
	}
}
