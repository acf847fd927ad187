//! Tables as Parquet files (<https://parquet.apache.org/docs/file-format/>), for notebooks and databases: columns of
//! texts, whole numbers and times, one page a column and group of rows, packed with Snappy.

mod thrift;

use std::io::{self, Write};
use thrift::{Struct, varint};

const MAGIC: &[u8; 4] = b"PAR1";
/// Rows of a group: they are kept until it is written.
const GROUP_ROWS: usize = 1 << 16;
/// A group is written at this many bytes, even if it has few rows.
const GROUP_BYTES: usize = 1 << 26;

// Numbers of the format's enumerations (parquet.thrift).
const INT64: i32 = 2;
const BYTE_ARRAY: i32 = 6;
const REQUIRED: i32 = 0;
const OPTIONAL: i32 = 1;
const UTF8: i32 = 0;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const SNAPPY: i32 = 1;
const DATA_PAGE: i32 = 0;

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether cells may be empty.
    pub is_optional: bool,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// Whole numbers.
    Number,
    /// Nanoseconds since 1970, UTC.
    Time,
}

/// A cell: numbers and times are both numbers.
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    /// Of a column of texts.
    Text(&'a str),
    /// Of a column of numbers or times.
    Number(i64),
    /// Of a column whose cells may be empty.
    Empty,
}

/// A file that is being written.
pub struct Table<W> {
    out: W,
    /// Where the next page begins.
    offset: u64,
    columns: &'static [Column],
    cells: Vec<Cells>,
    groups: Vec<Group>,
}

/// The cells of a column since the last group.
#[derive(Clone, Default)]
struct Cells {
    /// Whether each has a value.
    present: Vec<bool>,
    /// The values, as the encoding PLAIN has them.
    values: Vec<u8>,
}

/// A group of rows in the file.
struct Group {
    rows: usize,
    chunks: Vec<Chunk>,
}

/// A column of a group in the file.
struct Chunk {
    column: &'static Column,
    /// Where its page begins.
    offset: u64,
    /// With the page's header, unpacked and as written.
    unpacked: usize,
    packed: usize,
}

impl<W: Write> Table<W> {
    /// Begins a file.
    pub fn begin(mut out: W, columns: &'static [Column]) -> io::Result<Table<W>> {
        out.write_all(MAGIC)?;
        let cells = vec![Cells::default(); columns.len()];
        Ok(Table { out, offset: MAGIC.len() as u64, columns, cells, groups: Vec::new() })
    }

    /// Adds a row: one cell for each column.
    ///
    /// # Errors
    /// Where the file cannot be written, or a cell does not fit its column. No more can be written after either.
    pub fn write(&mut self, row: &[Cell]) -> io::Result<()> {
        if row.len() != self.columns.len() {
            return Err(io::Error::other(format!("{} cells for {} columns", row.len(), self.columns.len())));
        }
        for ((column, cells), cell) in self.columns.iter().zip(&mut self.cells).zip(row) {
            cells.push(column, cell)?;
        }
        let rows = self.cells.first().map_or(0, |cells| cells.present.len());
        let bytes: usize = self.cells.iter().map(|cells| cells.values.len()).sum();
        if rows < GROUP_ROWS && bytes < GROUP_BYTES { Ok(()) } else { self.write_group() }
    }

    /// Writes what is left, and the end of the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.write_group()?;
        let mut footer = Vec::new();
        Struct::write(&mut footer, |file| self.describe(file));
        self.out.write_all(&footer)?;
        self.out.write_all(&length(footer.len())?.to_le_bytes())?;
        self.out.write_all(MAGIC)?;
        self.out.flush()
    }

    fn write_group(&mut self) -> io::Result<()> {
        let rows = self.cells.first().map_or(0, |cells| cells.present.len());
        if rows == 0 {
            return Ok(());
        }
        let mut chunks = Vec::with_capacity(self.columns.len());
        for (column, cells) in self.columns.iter().zip(&mut self.cells) {
            let (header, page, unpacked) = cells.page(column)?;
            self.out.write_all(&header)?;
            self.out.write_all(&page)?;
            let packed = header.len() + page.len();
            let unpacked = header.len() + unpacked;
            chunks.push(Chunk { column, offset: self.offset, unpacked, packed });
            self.offset += packed as u64;
            *cells = Cells::default();
        }
        self.groups.push(Group { rows, chunks });
        Ok(())
    }

    /// The file's metadata.
    fn describe(&self, file: &mut Struct) {
        file.i32(1, 1);
        // The schema is a tree in depth-first order, here a root with all columns.
        let root = std::iter::once(None);
        let elements: Vec<Option<&Column>> = root.chain(self.columns.iter().map(Some)).collect();
        file.structs(2, &elements, |element, column| match column {
            Some(column) => column.describe(element),
            None => {
                element.text(4, "rows");
                element.i32(5, self.columns.len() as i32);
            }
        });
        file.i64(3, self.groups.iter().map(|group| group.rows as i64).sum());
        file.structs(4, &self.groups, |written, group| group.describe(written));
        file.text(6, concat!("plimsoll version ", env!("CARGO_PKG_VERSION")));
    }
}

impl Column {
    /// Its type in the file.
    fn physical_type(&self) -> i32 {
        match self.kind {
            Kind::Text => BYTE_ARRAY,
            Kind::Number | Kind::Time => INT64,
        }
    }

    fn describe(&self, element: &mut Struct) {
        element.i32(1, self.physical_type());
        element.i32(3, if self.is_optional { OPTIONAL } else { REQUIRED });
        element.text(4, self.name);
        match self.kind {
            Kind::Number => {}
            Kind::Text => {
                element.i32(6, UTF8);
                element.nested(10, |logical| logical.nested(1, |_| {}));
            }
            Kind::Time => element.nested(10, |logical| {
                logical.nested(8, |timestamp| {
                    timestamp.bool(1, true);
                    timestamp.nested(2, |unit| unit.nested(3, |_| {}));
                });
            }),
        }
    }
}

impl Cells {
    fn push(&mut self, column: &Column, cell: &Cell) -> io::Result<()> {
        match (column.kind, cell) {
            (Kind::Text, Cell::Text(text)) => {
                self.values.extend_from_slice(&length(text.len())?.to_le_bytes());
                self.values.extend_from_slice(text.as_bytes());
            }
            (Kind::Number | Kind::Time, Cell::Number(number)) => {
                self.values.extend_from_slice(&number.to_le_bytes());
            }
            (_, Cell::Empty) if column.is_optional => {}
            _ => return Err(io::Error::other(format!("column {} cannot hold {cell:?}", column.name))),
        }
        self.present.push(!matches!(cell, Cell::Empty));
        Ok(())
    }

    /// Header and content of the page, and how long the content is unpacked.
    fn page(&self, column: &Column) -> io::Result<(Vec<u8>, Vec<u8>, usize)> {
        let mut content = Vec::new();
        if column.is_optional {
            let levels = self.levels();
            content.extend_from_slice(&length(levels.len())?.to_le_bytes());
            content.extend(levels);
        }
        content.extend_from_slice(&self.values);
        let packed = snap::raw::Encoder::new().compress_vec(&content).map_err(io::Error::other)?;
        let (unpacked_size, packed_size) = (length(content.len())?, length(packed.len())?);
        let mut header = Vec::new();
        Struct::write(&mut header, |page| {
            page.i32(1, DATA_PAGE);
            page.i32(2, unpacked_size);
            page.i32(3, packed_size);
            page.nested(5, |data| {
                data.i32(1, self.present.len() as i32);
                data.i32(2, PLAIN);
                data.i32(3, RLE);
                data.i32(4, RLE);
            });
        });
        Ok((header, packed, content.len()))
    }

    /// Which cells have a value: one run of single bits, the lowest first.
    fn levels(&self) -> Vec<u8> {
        let bytes = self.present.chunks(8);
        let mut levels = Vec::new();
        varint(&mut levels, (bytes.len() as u64) << 1 | 1);
        levels.extend(bytes.map(|cells| {
            cells.iter().enumerate().fold(0, |byte, (place, present)| byte | u8::from(*present) << place)
        }));
        levels
    }
}

impl Group {
    fn describe(&self, group: &mut Struct) {
        group.structs(1, &self.chunks, |written, chunk| chunk.describe(written, self.rows));
        group.i64(2, self.chunks.iter().map(|chunk| chunk.unpacked as i64).sum());
        group.i64(3, self.rows as i64);
    }
}

impl Chunk {
    fn describe(&self, chunk: &mut Struct, cells: usize) {
        // Where its metadata are apart from the footer: nowhere.
        chunk.i64(2, 0);
        chunk.nested(3, |column| {
            column.i32(1, self.column.physical_type());
            column.i32s(2, &[PLAIN, RLE]);
            column.texts(3, &[self.column.name]);
            column.i32(4, SNAPPY);
            column.i64(5, cells as i64);
            column.i64(6, self.unpacked as i64);
            column.i64(7, self.packed as i64);
            column.i64(9, self.offset as i64);
        });
    }
}

/// A length in the 32 bits that the format has for it.
fn length(bytes: usize) -> io::Result<i32> {
    i32::try_from(bytes)
        .map_err(|_| io::Error::other(format!("{bytes} bytes are too many for a page of Parquet")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use parquet::basic::{LogicalType, TimeUnit};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use proptest::prelude::*;

    const fn column(name: &'static str, kind: Kind, is_optional: bool) -> Column {
        Column { name, kind, is_optional }
    }

    static COLUMNS: [Column; 5] = [
        column("text", Kind::Text, false),
        column("time", Kind::Time, false),
        column("perhaps_text", Kind::Text, true),
        column("perhaps_number", Kind::Number, true),
        column("perhaps_time", Kind::Time, true),
    ];

    type Row = (String, i64, Option<String>, Option<i64>, Option<i64>);

    fn file_of(rows: &[Row]) -> SerializedFileReader<Bytes> {
        let mut file = Vec::new();
        let mut table = Table::begin(&mut file, &COLUMNS).unwrap();
        for (text, time, perhaps_text, perhaps_number, perhaps_time) in rows {
            let perhaps = |number: &Option<i64>| number.map_or(Cell::Empty, Cell::Number);
            let perhaps_text = perhaps_text.as_deref().map_or(Cell::Empty, Cell::Text);
            let row = [
                Cell::Text(text),
                Cell::Number(*time),
                perhaps_text,
                perhaps(perhaps_number),
                perhaps(perhaps_time),
            ];
            table.write(&row).unwrap();
        }
        table.finish().unwrap();
        SerializedFileReader::new(Bytes::from(file)).unwrap()
    }

    fn read(reader: &SerializedFileReader<Bytes>) -> Vec<Row> {
        let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
        rows.map(|row| {
            let text = row.get_string(0).unwrap().clone();
            let numbers = [1, 3, 4].map(|place| row.get_long(place).ok());
            (text, numbers[0].unwrap(), row.get_string(2).ok().cloned(), numbers[1], numbers[2])
        })
        .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn another_library_reads_what_is_written(rows: Vec<Row>) {
            prop_assert_eq!(read(&file_of(&rows)), rows);
        }
    }

    #[test]
    fn many_rows_and_many_bytes_make_groups() {
        let row = |text: String| (text, 1, None, Some(-1), None);
        let many: Vec<Row> = (0..GROUP_ROWS + 3).map(|number| row(number.to_string())).collect();
        let reader = file_of(&many);
        assert_eq!(reader.metadata().num_row_groups(), 2);
        assert_eq!(read(&reader), many);
        let long: Vec<Row> = (0..3).map(|_| row("x".repeat(GROUP_BYTES / 2))).collect();
        assert_eq!(file_of(&long).metadata().num_row_groups(), 2);
    }

    #[test]
    fn columns_have_types_for_people() {
        let reader = file_of(&[]);
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let types: Vec<_> =
            schema.columns().iter().map(|column| column.logical_type_ref().cloned()).collect();
        let time = Some(LogicalType::timestamp(true, TimeUnit::NANOS));
        assert_eq!(types, [Some(LogicalType::String), time.clone(), Some(LogicalType::String), None, time]);
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    }

    #[test]
    fn a_cell_of_another_kind_is_refused() {
        let wrong: [&[Cell]; 3] =
            [&[Cell::Text("a"), Cell::Empty], &[Cell::Number(1), Cell::Number(1)], &[Cell::Text("a")]];
        for row in wrong {
            let mut table = Table::begin(Vec::new(), &COLUMNS[..2]).unwrap();
            assert!(table.write(row).is_err(), "{row:?}");
        }
    }
}
