//go:build arm64 && !purego

#include "textflag.h"

// Go's assembler has no name for these instructions. They widen vector 0 to vectors 1 and 2, or the bytes in it to
// 16 bits, and convert integers.
// SIGNED8: SXTL V0.8H, V0.8B
#define SIGNED8 WORD $0x0f08a400
// UNSIGNED8: UXTL V0.8H, V0.8B
#define UNSIGNED8 WORD $0x2f08a400
// SIGNED: SXTL V1.4S, V0.4H; SXTL2 V2.4S, V0.8H
#define SIGNED WORD $0x0f10a401; WORD $0x4f10a402
// UNSIGNED: UXTL V1.4S, V0.4H; UXTL2 V2.4S, V0.8H
#define UNSIGNED WORD $0x2f10a401; WORD $0x6f10a402
// HALVES: FCVTL V1.4S, V0.4H; FCVTL2 V2.4S, V0.8H
#define HALVES WORD $0x0e217801; WORD $0x4e217802
// INTEGERS: SCVTF V1.4S, V1.4S; SCVTF V2.4S, V2.4S
#define INTEGERS WORD $0x4e21d821; WORD $0x4e21d842
#define NOTHING
#define LOAD8 VLD1.P 8(R1), [V0.B8]
#define LOAD16 VLD1.P 16(R1), [V0.H8]

#define LOOP(load, bytes, widen, convert) \
	MOVD dst+0(FP), R0       \
	MOVD raw+8(FP), R1       \
	MOVD n+16(FP), R2        \
loop:                        \
	load                     \
	bytes                    \
	widen                    \
	convert                  \
	VST1.P [V1.S4, V2.S4], 32(R0) \
	SUBS $8, R2, R2          \
	BNE  loop                \
	RET

// func int8NEON(dst *float32, raw *byte, n int)
TEXT ·int8NEON(SB), NOSPLIT, $0-24
	LOOP(LOAD8, SIGNED8, SIGNED, INTEGERS)

// func uint8NEON(dst *float32, raw *byte, n int)
TEXT ·uint8NEON(SB), NOSPLIT, $0-24
	LOOP(LOAD8, UNSIGNED8, UNSIGNED, INTEGERS)

// func int16NEON(dst *float32, raw *byte, n int)
TEXT ·int16NEON(SB), NOSPLIT, $0-24
	LOOP(LOAD16, NOTHING, SIGNED, INTEGERS)

// func uint16NEON(dst *float32, raw *byte, n int)
TEXT ·uint16NEON(SB), NOSPLIT, $0-24
	LOOP(LOAD16, NOTHING, UNSIGNED, INTEGERS)

// func float16NEON(dst *float32, raw *byte, n int)
TEXT ·float16NEON(SB), NOSPLIT, $0-24
	LOOP(LOAD16, NOTHING, HALVES, NOTHING)
