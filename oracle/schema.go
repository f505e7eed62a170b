package oracle

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// messages are the types that larder reads and writes in protobuf, each with its group and version.
var messages = []struct {
	apiVersion string
	object     any
}{
	{"v1", v1.Secret{}},
	{"v1", v1.SecretList{}},
	{"v1", v1.ConfigMap{}},
	{"v1", v1.ConfigMapList{}},
	{"v1", v1.Pod{}},
	{"v1", v1.PodList{}},
	{"v1", v1.Node{}},
	{"v1", v1.NodeList{}},
	{"v1", v1.Namespace{}},
	{"v1", v1.NamespaceList{}},
	{"v1", metav1.Status{}},
	{"meta.k8s.io/v1", metav1.PartialObjectMetadata{}},
	{"meta.k8s.io/v1", metav1.PartialObjectMetadataList{}},
	{"v1", metav1.WatchEvent{}},
}

// special are the types with an encoding of their own, and their names in the table.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():          "Time",
	reflect.TypeFor[apiresource.Quantity](): "Quantity",
	reflect.TypeFor[intstr.IntOrString]():   "IntOrString",
	reflect.TypeFor[metav1.FieldsV1]():      "RawJson",
	reflect.TypeFor[runtime.RawExtension](): "RawExtension",
}

// schemaField is a field as Go's JSON and protobuf have it.
type schemaField struct {
	// Empty where the fields of the message stand among those of the outer one.
	name   string
	number int
	shape  string
	omit   string
	kind   string
	// The message that it is, if it is one.
	message reflect.Type
}

// typeSchema is what is known of all types.
type typeSchema struct {
	types  []reflect.Type
	fields map[reflect.Type][]schemaField
}

// writeSchema writes the table of larder-protobuf, as Rust.
func writeSchema(output io.Writer) error {
	s := typeSchema{fields: map[reflect.Type][]schemaField{}}
	for _, message := range messages {
		if err := s.add(reflect.TypeOf(message.object)); err != nil {
			return err
		}
	}
	names := newNames(&s)
	w := &strings.Builder{}
	fmt.Fprintln(w, "// Written by `cargo xtask differential --bless` from the Go types of k8s.io/api v0.37.2. Do not edit.")
	fmt.Fprintln(w)
	fmt.Fprintln(w, "use super::{Field, Omit, Range, Shape, Type};")
	fmt.Fprintln(w)
	fmt.Fprintln(w, "/// The type of each [`Message`](crate::Message), in the order of `Message::ALL`: its `apiVersion`, its `kind`, its place in `TYPES`.")
	fmt.Fprintf(w, "pub(super) const ROOTS: [(&str, &str, u16); %d] = [\n", len(messages))
	for _, message := range messages {
		t := reflect.TypeOf(message.object)
		fmt.Fprintf(w, "    (%q, %q, %d),\n", message.apiVersion, t.Name(), slices.Index(s.types, t))
	}
	fmt.Fprintln(w, "];")
	fmt.Fprintln(w)
	fmt.Fprintln(w, "/// Where the fields of each type stand in `FIELDS`.")
	fmt.Fprintf(w, "pub(super) static TYPES: [Range; %d] = [\n", len(s.types))
	first := 0
	for _, t := range s.types {
		fmt.Fprintf(w, "    Range { first: %d, count: %d }, // %s\n", first, len(s.fields[t]), t)
		first += len(s.fields[t])
	}
	fmt.Fprintln(w, "];")
	fmt.Fprintln(w)
	fmt.Fprintln(w, "/// The fields of each type, in the order of Go's JSON.")
	fmt.Fprintf(w, "pub(super) static FIELDS: [Field; %d] = [\n", first)
	for _, t := range s.types {
		fmt.Fprintf(w, "    // %s\n", t)
		for _, f := range s.fields[t] {
			kind := f.kind
			if f.message != nil {
				kind = fmt.Sprintf("Message(%d)", slices.Index(s.types, f.message))
			}
			fmt.Fprintf(w, "    Field::new(%d, %d, %d, Shape::%s, Omit::%s, Type::%s), // %s\n",
				names.at(f.name), len(f.name), f.number, f.shape, f.omit, kind, comment(f))
		}
	}
	fmt.Fprintln(w, "];")
	fmt.Fprintln(w)
	fmt.Fprintln(w, "/// The fields of each type by ascending number, as places among the fields of the type.")
	fmt.Fprintf(w, "pub(super) static BY_NUMBER: [u8; %d] = [\n", first)
	for _, t := range s.types {
		fmt.Fprintf(w, "    %s// %s\n", byNumber(s.fields[t]), t)
	}
	fmt.Fprintln(w, "];")
	fmt.Fprintln(w)
	fmt.Fprintln(w, "/// The names of all fields in JSON.")
	fmt.Fprintln(w, "pub(super) static NAMES: &str = \"\\")
	for text := names.text.String(); text != ""; {
		n := min(len(text), 120)
		fmt.Fprintf(w, "    %s\\\n", text[:n])
		text = text[n:]
	}
	fmt.Fprintln(w, "    \";")
	_, err := io.WriteString(output, w.String())
	return err
}

func comment(f schemaField) string {
	if f.name == "" {
		return "(inlined)"
	}
	return f.name
}

func byNumber(fields []schemaField) string {
	order := make([]int, len(fields))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return fields[a].number - fields[b].number })
	w := &strings.Builder{}
	for _, i := range order {
		fmt.Fprintf(w, "%d, ", i)
	}
	return w.String()
}

// add describes a type and all that it consists of. What larder could not write is an error.
func (s *typeSchema) add(t reflect.Type) error {
	if _, known := s.fields[t]; known {
		return nil
	}
	s.types = append(s.types, t)
	s.fields[t] = nil
	var fields []schemaField
	names, numbers := map[string]bool{}, map[int]bool{}
	for i := range t.NumField() {
		of := t.Field(i)
		if of.Type == reflect.TypeFor[metav1.TypeMeta]() {
			// It is in the envelope.
			continue
		}
		f, err := s.field(of)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t, of.Name, err)
		}
		if numbers[f.number] || f.name != "" && names[f.name] {
			return fmt.Errorf("%s.%s: the name or the number stands twice", t, of.Name)
		}
		names[f.name], numbers[f.number] = true, true
		fields = append(fields, f)
	}
	if len(fields) > 64 || len(fields) == 0 && t.NumField() > 0 {
		return fmt.Errorf("%s has %d fields", t, len(fields))
	}
	s.fields[t] = fields
	return nil
}

func (s *typeSchema) field(of reflect.StructField) (schemaField, error) {
	f := schemaField{omit: "Never", shape: "Value"}
	name, options, _ := strings.Cut(of.Tag.Get("json"), ",")
	f.name = name
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty":
			if f.omit == "Never" {
				f.omit = "Empty"
			}
		case "omitzero":
			f.omit = "Zero"
		case "inline":
			if !of.Anonymous || of.Type.Kind() != reflect.Struct {
				return f, fmt.Errorf("inlined, and not an embedded struct")
			}
		case "":
		default:
			return f, fmt.Errorf("the option %q is not known", option)
		}
	}
	if f.name == "" && !of.Anonymous || f.name == "-" {
		return f, fmt.Errorf("the name %q", f.name)
	}
	tag := strings.Split(of.Tag.Get("protobuf"), ",")
	number, err := strconv.Atoi(tag[min(1, len(tag)-1)])
	if err != nil || number < 1 || number > 255 {
		return f, fmt.Errorf("the number in %q", tag)
	}
	f.number = number
	t := of.Type
	switch {
	case t.Kind() == reflect.Pointer:
		f.shape, t = "Pointer", t.Elem()
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		f.shape, t = "List", t.Elem()
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		f.shape, t = "Map", t.Elem()
	}
	switch kind, isSpecial := special[t]; {
	case isSpecial:
		f.kind = kind
	case t.Kind() == reflect.Bool:
		f.kind = "Bool"
	case t.Kind() == reflect.Int32:
		f.kind = "Int32"
	case t.Kind() == reflect.Int64:
		f.kind = "Int64"
	case t.Kind() == reflect.String:
		f.kind = "String"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && f.shape == "Map":
		f.kind = "Bytes"
	case t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ MarshalJSON() ([]byte, error) }]()):
		f.message = t
		if err := s.add(t); err != nil {
			return f, err
		}
	default:
		return f, fmt.Errorf("the type %s", of.Type)
	}
	// The tag's wire type is not reliable: upstream has "bytes" for the number of remaining items. The Go type is.
	if f.shape == "Map" && (f.kind == "Bool" || f.kind == "Int32" || f.kind == "Int64") {
		return f, fmt.Errorf("a map to %s", t)
	}
	if f.omit == "Zero" && (f.kind != "Time" || f.shape != "Value") {
		return f, fmt.Errorf("a %s that is left out when it is zero", of.Type)
	}
	return f, nil
}

// schemaNames is one text that has each name once.
type schemaNames struct{ text strings.Builder }

// newNames puts longer names first, for shorter ones often stand in them.
func newNames(s *typeSchema) *schemaNames {
	var all []string
	for _, fields := range s.fields {
		for _, f := range fields {
			all = append(all, f.name)
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	names := &schemaNames{}
	for _, name := range all {
		if !strings.Contains(names.text.String(), name) {
			names.text.WriteString(name)
		}
	}
	return names
}

func (n *schemaNames) at(name string) int { return strings.Index(n.text.String(), name) }
