package oracle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// fields are the members of one line's object, by their exact names. encoding/json would take a field's name in any
// case when it fills a struct; a trace's names are exact.
type fields map[string]json.RawMessage

func parseFields(line []byte) (fields, error) {
	var f fields
	if err := json.Unmarshal(line, &f); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if f == nil {
		return nil, errors.New("not a JSON object: null")
	}
	return f, nil
}

// present says whether the field is there and not null.
func (f fields) present(name string) bool {
	raw, ok := f[name]
	return ok && !bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// need decodes a field that must be there and not null.
func need[T any](f fields, name string) (T, error) {
	var value T
	if _, ok := f[name]; !ok {
		return value, fmt.Errorf("field %q is missing", name)
	}
	if !f.present(name) {
		return value, fmt.Errorf("field %q is null", name)
	}
	if err := json.Unmarshal(f[name], &value); err != nil {
		return value, fmt.Errorf("field %q: %w", name, err)
	}
	return value, nil
}

// needNullable decodes a field that must be there and may be null.
func needNullable[T any](f fields, name string) (*T, error) {
	if _, ok := f[name]; !ok {
		return nil, fmt.Errorf("field %q is missing", name)
	}
	return optional[T](f, name)
}

// optional decodes a field that may be missing or null.
func optional[T any](f fields, name string) (*T, error) {
	if !f.present(name) {
		return nil, nil
	}
	value, err := need[T](f, name)
	if err != nil {
		return nil, err
	}
	return &value, nil
}
