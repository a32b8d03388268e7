//go:build amd64 && !purego

#include "textflag.h"

// LOOP converts eight numbers, of size bytes together, in each step: load widens them, convert makes them float32.
#define LOOP(size, load, convert) \
	MOVQ dst+0(FP), DI  \
	MOVQ raw+8(FP), SI  \
	MOVQ n+16(FP), CX   \
loop:                   \
	load (SI), Y0       \
	convert             \
	VMOVUPS Y0, (DI)    \
	ADDQ $size, SI      \
	ADDQ $32, DI        \
	SUBQ $8, CX         \
	JNZ  loop           \
	VZEROUPPER          \
	RET

#define INTEGERS VCVTDQ2PS Y0, Y0
#define NOTHING

// func int8AVX2(dst *float32, raw *byte, n int)
TEXT ·int8AVX2(SB), NOSPLIT, $0-24
	LOOP(8, VPMOVSXBD, INTEGERS)

// func uint8AVX2(dst *float32, raw *byte, n int)
TEXT ·uint8AVX2(SB), NOSPLIT, $0-24
	LOOP(8, VPMOVZXBD, INTEGERS)

// func int16AVX2(dst *float32, raw *byte, n int)
TEXT ·int16AVX2(SB), NOSPLIT, $0-24
	LOOP(16, VPMOVSXWD, INTEGERS)

// func uint16AVX2(dst *float32, raw *byte, n int)
TEXT ·uint16AVX2(SB), NOSPLIT, $0-24
	LOOP(16, VPMOVZXWD, INTEGERS)

// func float16F16C(dst *float32, raw *byte, n int)
TEXT ·float16F16C(SB), NOSPLIT, $0-24
	LOOP(16, VCVTPH2PS, NOTHING)

// func hasF16C() bool
TEXT ·hasF16C(SB), NOSPLIT, $0-1
	MOVL $1, AX
	XORL CX, CX
	CPUID
	SHRL $29, CX
	ANDL $1, CX
	MOVB CX, ret+0(FP)
	RET
