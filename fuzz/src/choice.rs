//! Enums that an input chooses from.

/// Defines an enum that implements `Arbitrary` with one byte for the choice of the variant: the derive
/// spends four, which makes inputs of the same length say half as much.
macro_rules! choice {
    ($(
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {$(
            $(#[$variant_meta:meta])*
            $variant:ident $(($($item:ty),*))? $({ $($field:ident: $of:ty),* $(,)? })?
        ),* $(,)?}
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        $vis enum $name {$(
            $(#[$variant_meta])*
            $variant $(($($item),*))? $({ $($field: $of),* })?,
        )*}

        impl<'a> arbitrary::Arbitrary<'a> for $name {
            fn arbitrary(u: &mut arbitrary::Unstructured<'a>) -> arbitrary::Result<Self> {
                type Make<'a> = fn(&mut arbitrary::Unstructured<'a>) -> arbitrary::Result<$name>;
                let makes: &[Make<'a>] = &[$(
                    |_u| Ok(Self::$variant $(($(<$item>::arbitrary(_u)?),*))? $({
                        $($field: <$of>::arbitrary(_u)?),*
                    })?)
                ),*];
                let choice = usize::from(u8::arbitrary(u)?);
                makes[choice % makes.len()](u)
            }
        }
    )*};
}

pub(crate) use choice;
