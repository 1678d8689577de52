// Behaviour of the two ECP5 blocks of which Yosys has only the ports, in the modes in which Yosys uses them: no
// registers of the blocks, no chip select, zero at power-up. Their numbered pins are gathered into vectors.

// A block RAM of 1,024 words of 18 bits with two ports. A port of 36 bits uses the data pins of both: A's are
// the lower half. A read of a bit that the other port writes in the same cycle gives the complement of what was
// there, so that a design that depends on such a bit fails.
module ecp5_block_ram(
  input [17:0] DIA, DIB, input [13:0] ADA, ADB,
  input CLKA, CLKB, CEA, CEB, WEA, WEB, RSTA, RSTB,
  output [17:0] DOA, DOB
);
  parameter DATA_WIDTH_A = 18;
  parameter DATA_WIDTH_B = 18;
  parameter WRITEMODE_A = "NORMAL";
  parameter WRITEMODE_B = "NORMAL";

  reg [17:0] words [0:1023];
  reg [35:0] read_a, read_b;
  integer place;
  initial begin
    read_a = 0;
    read_b = 0;
    for (place = 0; place < 1024; place = place + 1) words[place] = 0;
  end

  // The place of a port's lowest bit in its word: narrow ports skip bits 8 and 17.
  function [4:0] lowest(input integer width, input [13:0] address);
    lowest = width > 9 ? 5'd0 : width == 9 ? (address[3] ? 5'd9 : 5'd0) : address[3:0] + {4'b0, address[3]};
  endfunction

  // The bits that a port of `width` moves, from that place on; wide ports enable each 9 bits by an address pin.
  function [35:0] moved(input integer width, input [13:0] address, input writes);
    reg [35:0] bits;
    begin
      bits = width == 36 ? 36'hfffffffff : (36'd1 << width) - 36'd1;
      if (writes && width == 36)
        bits = {{9{address[3]}}, {9{address[2]}}, {9{address[1]}}, {9{address[0]}}};
      if (writes && width == 18) bits = {18'b0, {9{address[1]}}, {9{address[0]}}};
      moved = bits << lowest(width, address);
    end
  endfunction

  wire [9:0] word_a = {ADA[13:5], DATA_WIDTH_A != 36 && ADA[4]};
  wire [9:0] word_b = {ADB[13:5], DATA_WIDTH_B != 36 && ADB[4]};
  wire [35:0] mask_a = CEA && WEA ? moved(DATA_WIDTH_A, ADA, 1'b1) : 36'b0;
  wire [35:0] mask_b = CEB && WEB ? moved(DATA_WIDTH_B, ADB, 1'b1) : 36'b0;
  wire [35:0] data_a = DATA_WIDTH_A == 36 ? {DIB, DIA} : {18'b0, DIA} << lowest(DATA_WIDTH_A, ADA);
  wire [35:0] data_b = {18'b0, DIB} << lowest(DATA_WIDTH_B, ADB);

  // Both ports in terms of the pair of words, whose odd one is the upper half.
  wire [35:0] pair_mask_a = word_a[0] ? {mask_a[17:0], 18'b0} : mask_a;
  wire [35:0] pair_mask_b = word_b[0] ? {mask_b[17:0], 18'b0} : mask_b;
  wire [35:0] pair_data_a = word_a[0] ? {data_a[17:0], 18'b0} : data_a;
  wire [35:0] pair_data_b = word_b[0] ? {data_b[17:0], 18'b0} : data_b;
  wire same = word_a[9:1] == word_b[9:1];
  wire [9:0] even_a = {word_a[9:1], 1'b0}, odd_a = {word_a[9:1], 1'b1};
  wire [9:0] even_b = {word_b[9:1], 1'b0}, odd_b = {word_b[9:1], 1'b1};
  wire [35:0] old_a = {words[odd_a], words[even_a]}, old_b = {words[odd_b], words[even_b]};
  wire [35:0] after_a = (old_a & ~pair_mask_a) | (pair_data_a & pair_mask_a);
  wire [35:0] after_b = (old_b & ~pair_mask_b) | (pair_data_b & pair_mask_b);
  wire [35:0] seen_a = (WRITEMODE_A == "WRITETHROUGH" ? after_a : old_a) ^ (same ? pair_mask_b : 36'b0);
  wire [35:0] seen_b = (WRITEMODE_B == "WRITETHROUGH" ? after_b : old_b) ^ (same ? pair_mask_a : 36'b0);

  always @(posedge CLKA) begin
    if (|pair_mask_a) begin
      words[even_a] <= after_a[17:0];
      words[odd_a] <= after_a[35:18];
    end
    if (|pair_mask_b) begin
      words[even_b] <= after_b[17:0];
      words[odd_b] <= after_b[35:18];
    end
    if (RSTA) read_a <= 0;
    else if (CEA && (!WEA || WRITEMODE_A != "NORMAL"))
      read_a <= seen_a >> (lowest(DATA_WIDTH_A, ADA) + (word_a[0] ? 5'd18 : 5'd0));
    if (RSTB) read_b <= 0;
    else if (CEB && (!WEB || WRITEMODE_B != "NORMAL"))
      read_b <= seen_b >> (lowest(DATA_WIDTH_B, ADB) + (word_b[0] ? 5'd18 : 5'd0));
  end

  assign DOA = DATA_WIDTH_B == 36 ? read_b[17:0] : read_a[17:0];
  assign DOB = DATA_WIDTH_B == 36 ? read_b[35:18] : read_b[17:0];
endmodule

// The product of two factors of 18 bits, each with its own sign.
module ecp5_multiplier(input [17:0] A, B, input SIGNEDA, SIGNEDB, output [35:0] P);
  wire signed [18:0] a = {SIGNEDA & A[17], A};
  wire signed [18:0] b = {SIGNEDB & B[17], B};
  wire signed [37:0] product = a * b;
  assign P = product[35:0];
endmodule
